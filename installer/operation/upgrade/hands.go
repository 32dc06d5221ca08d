package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/installer/operation/leader"
	"github.com/sealift/sealift/installer/operation/record"
	"github.com/sealift/sealift/installer/recovery/retention"
	"github.com/sealift/sealift/installer/recovery/snapshot"
	"github.com/sealift/sealift/installer/recovery/undo"
)

// hands are this host and the agents of the other nodes.
type hands struct {
	*run
	in      *install.Install
	sealift string // digest of the program that nodes get
	kept    undo.Set
}

func (h *hands) prepareOwn(ctx context.Context) (err error) {
	h.kept, err = retention.Node{Root: h.in.Root, Socket: runtime.Socket}.Keep(ctx, h.in.WholeUpgrade(), h.in.From(), h.Say)
	if err != nil {
		return fmt.Errorf("save the files that the upgrade replaces on this node: %w", err)
	}
	_, err = h.in.RunPhases(ctx, h.Observe, lifecycle.Prepare)
	return err
}

func (h *hands) saveEtcd(ctx context.Context) (path string, err error) {
	path = h.kept.Etcd()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	saved, err := snapshot.SaveEtcd(ctx, path)
	if err != nil {
		return "", fmt.Errorf("a snapshot of etcd before the first change: %w", err)
	}
	h.Say(fmt.Sprintf("snapshot of etcd: %d bytes in %s", saved.Size, path))
	return path, nil
}

// addOns brings the add-ons to their new versions. Then the nodes have nothing left to do.
func (h *hands) addOns(ctx context.Context) error {
	if _, err := h.in.RunPhases(ctx, h.Observe, lifecycle.Install, lifecycle.PostInit, lifecycle.Outro); err != nil {
		return h.rollBack(ctx, err)
	}
	for _, n := range h.nodes {
		if err := leader.RetryDuringOutage(ctx, func(ctx context.Context) error {
			return withdraw(ctx, h.view, n.Name)
		}); err != nil {
			return err
		}
	}
	return forgetRecords(ctx, h.led.Records, record.Undo) // of one that was given up
}

// withdraw removes the request to a node, if that has not left the cluster.
func withdraw(ctx context.Context, view *cluster.View, name string) error {
	err := view.Annotate(ctx, name, map[string]string{intent.Annotation: ""})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// rollBack rolls back the add-ons that are not healthy. An interrupted upgrade does not change them, because it will be resumed.
func (h *hands) rollBack(ctx context.Context, cause error) error {
	if ctx.Err() != nil {
		return cause
	}
	gone, err := cluster.GoBack(ctx, node.MemoryDir(h.in.Root), h.Output)
	errs := []error{cause}
	for _, back := range gone {
		errs = append(errs, errors.New(back.String()))
	}
	return errors.Join(append(errs, err)...)
}
