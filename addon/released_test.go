package addon

import (
	"reflect"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/internal/testing/released"
)

// TestRecordsOfReleasesAreRead: clusters keep the records that an older sealift wrote.
func TestRecordsOfReleasesAreRead(t *testing.T) {
	channel := Channel("kube-system", "flannel")
	want := Record{
		Name:      "flannel",
		Ownership: Ownership{Owner: Installer(), Policy: OnChange, Set: "sealift/flannel", Applied: Applied{Version: "0.26.7", Digest: "012345", Options: "fedcba"}},
		Moving:    "kube-system/flannel", Released: &channel,
		History: []Past{{Ownership{Owner: channel, Policy: Continuous, Set: "kube-system/flannel", Applied: Applied{Version: "0.26.6", Digest: "543210"}}, time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}},
	}
	released.Test(t, released.Format{Name: "addon-record.yaml", Write: func(t *testing.T, file string) {
		data, err := want.encode()
		if err != nil {
			t.Fatal(err)
		}
		text, err := yaml.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		released.Put(t, file, text)
	}, Read: func(t *testing.T, file string) {
		var data map[string]string
		if err := yaml.UnmarshalStrict(released.Data(t, file), &data); err != nil {
			t.Fatal(err)
		}
		if got, err := decode(data); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v\ngot  %+v\nwant %+v", err, got, want)
		}
	}})
}
