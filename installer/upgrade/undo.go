package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/controlplane"
	"github.com/sealift/sealift/installer/intent"
	"github.com/sealift/sealift/installer/leader"
	"github.com/sealift/sealift/installer/lifecycle"
	"github.com/sealift/sealift/installer/node"
	"github.com/sealift/sealift/installer/restore"
	"github.com/sealift/sealift/installer/share"
	"github.com/sealift/sealift/installer/snapshot"
	"github.com/sealift/sealift/installer/undo"
)

// ErrUnchanged says that an upgrade has changed nothing that could be undone.
var ErrUnchanged = errors.New("the last upgrade stopped before its first change: there is nothing to undo")

// Undo takes the cluster of this host, its only control plane, back to where it was before its last upgrade: etcd by the snapshot
// that the upgrade took, the nodes by the files that it replaced. Close must be called.
type Undo struct {
	// Set is what this node goes back to, Lost what was written since and will be gone.
	Set  undo.Set
	Lost restore.Lost
	// Nodes are the other nodes that go back first. Away says why they could not be listed; "" if they could.
	Nodes []string
	Away  string

	store   undo.Store
	cluster *Cluster // nil while the API is away
	content *snapshot.Content
	restore *restore.Restore
}

// PrepareUndo looks at what going back would do, and changes nothing.
func PrepareUndo(ctx context.Context, root, name string, output io.Writer) (_ *Undo, err error) {
	u := &Undo{store: undo.Store{Root: root}}
	if u.Set, err = u.store.Newest(); err != nil {
		return nil, err
	}
	if err := u.Set.Check(); err != nil {
		return nil, err
	}
	if u.content, err = etcdOf(u.Set, name); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, u.Close())
		}
	}()
	u.restore, err = restore.Prepare(ctx, restore.Options{Root: root, Output: output, Besides: u.putBack}, u.content)
	if err != nil {
		return nil, err
	}
	if others := u.restore.Others(); len(others) > 0 {
		return nil, fmt.Errorf("the cluster has other control planes (%s), and an upgrade can be undone in a cluster with one only; restore the snapshot %s on one of them as docs/snapshots.md says, and join the others again",
			strings.Join(others, ", "), u.Set.Etcd())
	}
	u.Lost = u.restore.Lost
	if u.findNodes(ctx, name); u.Away == "" {
		return u, nil
	}
	return u, u.checkAlone(root, name)
}

// checkAlone refuses to go back without the API if other nodes may run the new version: they are upgraded after this one.
func (u *Undo) checkAlone(root, name string) error {
	others := slices.DeleteFunc(slices.Clone(u.restore.Nodes), func(n string) bool { return n == name })
	records, err := lifecycle.ReadJournal(node.StateDir(root))
	if err != nil || len(others) == 0 {
		return err
	}
	if slices.ContainsFunc(records, func(r lifecycle.Record) bool {
		return r.Step == node.KubeletStep && r.Outcome == lifecycle.Finished && r.Time.After(u.Set.Time)
	}) {
		return fmt.Errorf("the API does not answer, and %s may run the new version already, which only the API can tell: %s; bring the API back first (see 'sealift status')", strings.Join(others, ", "), u.Away)
	}
	return nil
}

// etcdOf opens the snapshot of a set.
func etcdOf(set undo.Set, name string) (*snapshot.Content, error) {
	err := snapshot.VerifyEtcd(set.Etcd())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrUnchanged
	}
	if err != nil {
		return nil, err
	}
	ca, err := share.ReadCA(filepath.Join(cluster.PKI, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("the cluster's CA: %w", err)
	}
	etcd, err := os.Open(set.Etcd())
	if err != nil {
		return nil, err
	}
	return &snapshot.Content{Index: snapshot.Index{Format: snapshot.Format, Node: name, Time: set.Time, Cluster: share.CAHash(ca)}, Etcd: etcd}, nil
}

// findNodes lists the other nodes that run another version than before.
func (u *Undo) findNodes(ctx context.Context, name string) {
	c, err := Open(ctx, name)
	if err != nil {
		u.Away = err.Error()
		return
	}
	u.cluster = c
	for _, n := range c.nodes {
		if n.Name != name && n.Version != "v"+u.Set.From {
			u.Nodes = append(u.Nodes, n.Name)
		}
	}
}

// LogFile is the log of this run.
func (u *Undo) LogFile() string { return u.restore.LogFile() }

// Close releases the lock of the node.
func (u *Undo) Close() error {
	err := u.content.Close()
	if u.restore != nil {
		err = errors.Join(err, u.restore.Close())
	}
	return err
}

// Run goes back. It may be repeated after an interruption.
func (u *Undo) Run(ctx context.Context, observe func(lifecycle.Event), say func(string)) error {
	if err := u.restore.Check(ctx); err != nil {
		return err
	}
	for _, name := range u.Nodes {
		in := intent.Intent{Upgrade: u.Set.Upgrade, Operation: intent.Undo, From: u.Set.From, Whole: u.Set.Upgrade}
		if err := leader.Of(u.cluster.view).Ask(ctx, say, name, in); err != nil {
			return err
		}
	}
	if err := u.restore.Run(ctx, observe); err != nil {
		return err
	}
	if err := forget(ctx, u.Set.From); err != nil {
		return err
	}
	// The journal is one of these files, and what was run has its end in it.
	if err := u.restore.Close(); err != nil {
		return err
	}
	u.restore = nil
	if _, err := u.store.PutBack(u.Set, true); err != nil {
		return err
	}
	return u.Set.Remove()
}

// putBack exchanges the files of this host while nothing of its control plane runs.
func (u *Undo) putBack(ctx context.Context, output io.Writer) error {
	return u.Set.PutBackHost(ctx, u.store, output)
}

// forget removes what the cluster's data of before the upgrade knows about it, and waits for the versions of before.
func forget(ctx context.Context, version string) error {
	admin, err := controlplane.AsAdministrator()
	if err != nil {
		return err
	}
	view, err := cluster.NewView()
	if err != nil {
		return err
	}
	return leader.Insist(ctx, func(ctx context.Context) error {
		err := admin.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Delete(ctx, stateName, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		nodes, err := view.Nodes(ctx)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			if n.Version != "v"+version {
				return fmt.Errorf("node %s still runs %s", n.Name, n.Version)
			}
			if err := view.Annotate(ctx, n.Name, map[string]string{intent.Annotation: ""}); err != nil {
				return err
			}
		}
		return nil
	})
}
