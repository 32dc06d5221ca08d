package endpoint

import (
	"errors"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/sealift/sealift/installer/operation/exclusion"
)

// TestUnfinishedMoveExcludesOtherOperations writes the record as a change of the load balancer does.
func TestUnfinishedMoveExcludesOtherOperations(t *testing.T) {
	t.Parallel()
	host := exclusion.Host{Root: t.TempDir(), Rootfs: t.TempDir()}
	client := fake.NewClientset()
	for _, moved := range []bool{false, true} {
		r := record{ID: "20260101T000000.000Z", From: "10.0.0.1:6443", To: "10.0.0.2:6443", Moved: moved}
		if err := r.write(t.Context(), client); err != nil {
			t.Fatal(err)
		}
		err := host.Check(t.Context(), client, exclusion.Keys)
		var refused *exclusion.Error
		if errors.As(err, &refused) == moved || moved && err != nil {
			t.Errorf("moved %t: %v", moved, err)
		}
	}
}
