package record_test

import (
	"reflect"
	"testing"

	"github.com/sealift/sealift/internal/testing/released"
	"github.com/sealift/sealift/spec/record"
)

// TestRecordsOfReleasesAreRead: bundles are made for clusters that run an older sealift.
func TestRecordsOfReleasesAreRead(t *testing.T) {
	released.Test(t, released.Format{
		Name:  "cluster-record.json",
		Write: func(t *testing.T, file string) { released.Put(t, file, []byte(text(t))) },
		Read: func(t *testing.T, file string) {
			if got, err := record.Load(file); err != nil || !reflect.DeepEqual(got, sample()) {
				t.Errorf("%v\ngot  %+v\nwant %+v", err, got, sample())
			}
		},
	})
}
