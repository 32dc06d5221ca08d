package exclusion_test

import (
	"context"
	"errors"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster/controlplane"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/operation/record"
	testcluster "github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/kube"
)

// TestControlPlaneCommandLooksInItsRoot has an address that is half changed, with records in a root that is not the default.
func TestControlPlaneCommandLooksInItsRoot(t *testing.T) {
	p := newPlace(t)
	p.readdress("readdress/keep")
	_, err := exclusion.JoinCommand(t.Context(), controlplane.Administrator{Client: p.client}, controlplane.Invitation{ControlPlane: true, Root: p.host.Root})
	if refused, ok := errors.AsType[*exclusion.Error](err); !ok {
		t.Errorf("got %v, %v", refused, err)
	}
}

// TestConflictingOperationIsRefused begins operations on a cluster that gets a new key for Secrets.
func TestConflictingOperationIsRefused(t *testing.T) {
	config := testcluster.ForTest(t)
	c, err := kube.Connect(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	records := record.Store{Client: client}
	if err := records.Change(t.Context(), func(all record.All) error {
		all[record.Keys] = record.Record{ID: "key-2", Kind: record.Keys, Leader: "host-1"}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	on := exclusion.Host{Root: t.TempDir(), Rootfs: t.TempDir()}
	begin := func(o exclusion.Operation) (worked bool, err error) {
		err = exclusion.WithClusterLock(t.Context(), c, on, o, nil, func(context.Context) error {
			worked = true
			return nil
		})
		return worked, err
	}
	var refused *exclusion.Error
	if worked, err := begin(exclusion.Upgrade); worked || !errors.As(err, &refused) {
		t.Errorf("an upgrade: worked %t, %v", worked, err)
	}
	if worked, err := begin(exclusion.Keys); !worked || err != nil {
		t.Errorf("the same rotation: worked %t, %v", worked, err)
	}
	if err := records.Change(t.Context(), func(all record.All) error {
		delete(all, record.Keys)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if worked, err := begin(exclusion.Upgrade); !worked || err != nil {
		t.Errorf("an upgrade after it: worked %t, %v", worked, err)
	}
}
