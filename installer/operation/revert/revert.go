// Package revert takes one control plane back to where it was before an upgrade: etcd's data by the snapshot that the upgrade took,
// the host's files by the copies that this node kept. Package upgrade decides when, for the whole cluster.
package revert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/recovery/restore"
	"github.com/sealift/sealift/installer/recovery/snapshot"
	"github.com/sealift/sealift/installer/recovery/undo"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/internal/sha256hex"
)

// ErrNoSnapshot means that this node has no snapshot of etcd from the upgrade.
var ErrNoSnapshot = errors.New("the last upgrade stopped before its first change: there is nothing to undo; run 'sealift upgrade' again, also with another bundle")

// Options select what is undone. All fields but Order and Output are required.
type Options struct {
	Root string
	Node string   // the name of this node
	Set  undo.Set // the state that this node restores
	// Order is set if other control planes are undone, too.
	Order  *undo.JointUndo
	Output io.Writer // receives what programs print, besides the log file
}

// Revert is about to take this control plane back. Nothing is changed before its restore runs.
type Revert struct {
	Restore *restore.Restore

	options Options
	store   undo.Store
	content *snapshot.Content
}

// Open checks the copies and the snapshot. Close must be called.
func Open(ctx context.Context, o Options) (_ *Revert, err error) {
	r := &Revert{options: o, store: undo.Store{Root: o.Root}}
	if err := o.Set.Check(); err != nil {
		return nil, err
	}
	if err := o.Set.CheckAddress(r.store); err != nil {
		return nil, err
	}
	if err := o.Set.CheckEndpoint(r.store); err != nil {
		return nil, err
	}
	if err := (exclusion.Host{Root: o.Root}).Check(ctx, nil, exclusion.Undo); err != nil {
		return nil, err
	}
	if err := checkAuthority(filepath.Join(kubeadm.PKI, "ca.crt"), o.Set); err != nil {
		return nil, err
	}
	if r.content, err = etcdOf(o.Set, o.Node); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	options := restore.Options{Scope: node.Scope{Root: o.Root, Output: o.Output}, Besides: r.putBack}
	if o.Order != nil {
		if digest, err := r.Snapshot(); err != nil {
			return nil, err
		} else if digest != o.Order.Snapshot {
			return nil, fmt.Errorf("%s is not the snapshot that the control planes go back to: its sha256 is %s, not %s", o.Set.Etcd(), digest, o.Order.Snapshot)
		}
		options.Together = together(*o.Order)
	}
	r.Restore, err = restore.Prepare(ctx, options, r.content)
	return r, err
}

func together(o undo.JointUndo) *restore.Together {
	return &restore.Together{Token: o.ID, Members: o.Members}
}

// Join has this control plane undone as one of several.
func (r *Revert) Join(o undo.JointUndo) error { return r.Restore.Join(*together(o)) }

// Snapshot is the sha256 of the snapshot of etcd, in hex.
func (r *Revert) Snapshot() (digest string, err error) {
	digest, _, err = sha256hex.Read(io.NewSectionReader(r.content.Etcd, 0, 1<<62))
	return digest, err
}

// putBack exchanges the files of this host while nothing of its control plane runs.
func (r *Revert) putBack(ctx context.Context, output io.Writer) error {
	return r.options.Set.PutBackHost(ctx, r.store, output)
}

// PutBackState restores Sealift's own state of this node. The journal is part of it, so nothing runs on this node any longer.
func (r *Revert) PutBackState() error {
	if err := r.Restore.Close(); err != nil {
		return err
	}
	r.Restore = nil
	_, err := r.store.PutBack(r.options.Set, true)
	return err
}

// Close releases the lock of the node.
func (r *Revert) Close() error {
	err := r.content.Close()
	if r.Restore != nil {
		err = errors.Join(err, r.Restore.Close())
	}
	return err
}

// checkAuthority refuses an undo beyond a rotation of the cluster's CA: etcd's data and the old files name the old CA. A set of an older
// sealift has only times.
func checkAuthority(file string, set undo.Set) error {
	ca, err := identity.ReadCA(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	began := authority.Began(ca)
	if set.CA == identity.CAHash(ca) || set.CA == "" && !began.After(set.Time) {
		return nil
	}
	return fmt.Errorf("the cluster's CA, from %s, is not that from before the upgrade of %s: the CAs were rotated since, and going back would bring the old ones; restore a snapshot from after the rotation instead, as docs/snapshots.md says",
		began.UTC().Format(time.DateTime), set.Time.UTC().Format(time.DateTime))
}

// etcdOf opens the snapshot of a set.
func etcdOf(set undo.Set, name string) (*snapshot.Content, error) {
	err := snapshot.VerifyEtcd(set.Etcd())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoSnapshot
	}
	if err != nil {
		return nil, err
	}
	ca, err := identity.ReadCA(filepath.Join(kubeadm.PKI, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("the cluster's CA: %w", err)
	}
	etcd, err := regularfile.Open(set.Etcd())
	if err != nil {
		return nil, err
	}
	return &snapshot.Content{Index: snapshot.Index{Format: snapshot.Format, Node: name, Time: set.Time, Cluster: identity.CAHash(ca)}, Etcd: etcd}, nil
}
