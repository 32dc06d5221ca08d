package upgrade

import (
	"errors"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/sealift/sealift/installer/operation/exclusion"
)

// TestUnfinishedUpgradeExcludesOtherOperations writes the record as an upgrade does, in each phase.
func TestUnfinishedUpgradeExcludesOtherOperations(t *testing.T) {
	t.Parallel()
	host := exclusion.Host{Root: t.TempDir(), Rootfs: t.TempDir()}
	client := fake.NewClientset()
	for _, state := range []State{
		{Phase: Preparing}, {Phase: Preparing, Snapshot: "/etcd"}, {Phase: Nodes, Snapshot: "/etcd"}, {Phase: AddOns, Snapshot: "/etcd"}, {Phase: Finished, Snapshot: "/etcd"},
	} {
		if err := (store{client}).write(t.Context(), state); err != nil {
			t.Fatal(err)
		}
		err := host.Check(t.Context(), client, exclusion.Keys)
		var refused *exclusion.Error
		if want := state.Phase != Finished && !state.untouched(); errors.As(err, &refused) != want || !want && err != nil {
			t.Errorf("%+v: %v, want a refusal: %t", state, err, want)
		}
	}
}
