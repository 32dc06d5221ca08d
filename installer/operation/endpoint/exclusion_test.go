package endpoint

import (
	"encoding/json"
	"errors"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/operation/record"
)

// TestUnfinishedMoveExcludesOtherOperations writes the record as a change of the load balancer does.
func TestUnfinishedMoveExcludesOtherOperations(t *testing.T) {
	t.Parallel()
	host := exclusion.Host{Root: t.TempDir(), Rootfs: t.TempDir()}
	client := fake.NewClientset()
	for _, moved := range []bool{false, true} {
		text, err := json.Marshal(params{From: "10.0.0.1:6443", To: "10.0.0.2:6443"})
		if err != nil {
			t.Fatal(err)
		}
		r := record.Record{ID: "20260101T000000.000Z", Kind: Kind.Name, Params: text, Waits: moved}
		if err := (record.Store{Client: client}).Change(t.Context(), func(all record.All) error {
			all[r.Kind] = r
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		err = host.Check(t.Context(), client, exclusion.Keys)
		var refused *exclusion.Error
		if errors.As(err, &refused) == moved || moved && err != nil {
			t.Errorf("moved %t: %v", moved, err)
		}
	}
}
