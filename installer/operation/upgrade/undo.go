package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/controlplane"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/installer/operation/leader"
	"github.com/sealift/sealift/installer/operation/record"
	"github.com/sealift/sealift/installer/operation/revert"
	"github.com/sealift/sealift/installer/recovery/restore"
	"github.com/sealift/sealift/installer/recovery/undo"
	"github.com/sealift/sealift/internal/outage"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube"
)

// Undo restores the cluster of this host to its state before the last upgrade: etcd from the upgrade's snapshot, the nodes from the
// replaced files. Several control planes are undone together: see lead. Close must be called.
type Undo struct {
	// Set is what this node restores, Lost the newer objects that will be gone.
	Set  undo.Set
	Lost restore.Lost
	// Nodes are the workers that are undone first. Away says why they could not be listed; "" if they could.
	Nodes []string
	Away  string
	// Restored means that an earlier run has taken this only control plane back, and was killed before its end. Nothing is lost again.
	Restored bool

	own     string   // this node
	cluster *Cluster // nil while the API is unreachable
	revert  *revert.Revert
	order   *undo.JointUndo // nil if this is the only control plane
}

// PrepareUndo plans an undo, and changes nothing.
func PrepareUndo(ctx context.Context, root, name string, output io.Writer) (_ *Undo, err error) {
	u := &Undo{own: name}
	if u.Set, err = (undo.Store{Root: root}).Newest(); err != nil {
		return nil, err
	}
	o, ordered, err := u.Set.Order()
	if err != nil {
		return nil, err
	}
	if u.Restored, err = u.Set.IsRestored(); err != nil {
		return nil, err
	}
	if ordered && o.Leader != name {
		return nil, fmt.Errorf("%s leads the undo of this upgrade; run the command there", o.Leader)
	}
	if ordered && o.Stage != undo.Prepared { // a run that was killed before that begins again
		u.order = &o
	}
	u.findNodes(ctx, name)
	if u.cluster != nil {
		if err := (exclusion.Host{Root: root}).Check(ctx, u.cluster.admin.Client, exclusion.Undo); err != nil {
			return nil, err
		}
	}
	u.revert, err = revert.Open(ctx, revert.Options{Root: root, Node: name, Set: u.Set, Order: u.order, Output: output})
	if err != nil {
		return nil, u.elsewhere(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, u.Close())
		}
	}()
	if u.Restored {
		u.Nodes, u.Lost = nil, restore.Lost{Created: []string{}, Changed: []string{}, Deleted: []string{}}
		return u, nil
	}
	u.Lost = u.revert.Restore.Lost
	if u.order != nil {
		return u, nil
	}
	if err := u.checkKept(); err != nil {
		return nil, err
	}
	switch {
	case len(u.revert.Restore.Others()) > 0:
		return u, u.gather(ctx)
	case u.Away != "":
		return u, u.checkAlone(root, name)
	}
	return u, nil
}

// elsewhere names the node that has the snapshot, if this one has none. No other snapshot fits the files that the nodes keep.
func (u *Undo) elsewhere(err error) error {
	if !errors.Is(err, revert.ErrNoSnapshot) || u.cluster == nil || u.cluster.last.SnapshotOn == "" {
		return err
	}
	on := u.cluster.last.SnapshotOn
	at := slices.IndexFunc(u.cluster.nodes, func(n cluster.Node) bool { return n.Name == on })
	switch {
	case on == u.own:
		return fmt.Errorf("%s, the snapshot of etcd that the upgrade took, is gone; %s", u.cluster.last.Snapshot, restoreInstead)
	case at < 0:
		return fmt.Errorf("node %s had the snapshot of etcd that the upgrade took, and has left the cluster; %s", on, restoreInstead)
	case !u.cluster.nodes[at].Ready:
		return fmt.Errorf("node %s has the snapshot of etcd that the upgrade took, and is not Ready (%s); bring it back, and run the command there",
			on, u.cluster.nodes[at].Why)
	}
	return fmt.Errorf("node %s has the snapshot of etcd that the upgrade took; run the command there", on)
}

const restoreInstead = "restore a snapshot instead, as docs/snapshots.md says"

// checkAlone refuses an undo without the API if other nodes may run the new version: they are upgraded after this one. When an undo that
// was interrupted has begun with etcd's data, they have gone back already. The order of the journal's records decides, not their times: a
// host that lost its power may have lost its clock.
func (u *Undo) checkAlone(root, name string) error {
	others := slices.DeleteFunc(slices.Clone(u.revert.Restore.Nodes), func(n string) bool { return n == name })
	records, err := lifecycle.ReadJournal(node.StateDir(root))
	if err != nil || len(others) == 0 {
		return err
	}
	newer := false
	for n, r := range records {
		switch {
		case !u.Set.After(n, r):
		case r.Step == node.KubeletStep && r.Outcome == lifecycle.Finished:
			newer = true
		case u.revert.Restore.Wrote(r):
			newer = false
		}
	}
	if newer {
		return fmt.Errorf("the API does not answer, and %s may already run the new version, which only the API knows: %s; bring the API back first (see 'sealift status')", strings.Join(others, ", "), u.Away)
	}
	return nil
}

// apiTime is how long an API that does not answer is asked again: it restarts, or its host is busy.
const apiTime = 30 * time.Second

// findNodes lists the workers to undo.
func (u *Undo) findNodes(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(apiTime))
	defer cancel()
	var c *Cluster
	var reports map[string]intent.Report
	err := poll.Until(ctx, time.Second, nil, func(ctx context.Context) (_ bool, err error) {
		if c, err = Open(ctx, name, nil); err == nil {
			reports, err = c.reports(ctx)
		}
		if err != nil && outage.Passes(err) {
			err = poll.NotYet(err)
		}
		return err == nil, err
	})
	if err != nil {
		u.Away = err.Error()
		return
	}
	u.cluster = c
	u.Nodes = workersToUndo(c.nodes, u.Set, c.last, reports)
}

// reports are the nodes' last reports.
func (c *Cluster) reports(ctx context.Context) (map[string]intent.Report, error) {
	all, err := c.view.Annotations(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]intent.Report{}
	for name, annotations := range all {
		report, err := intent.ParseReport(annotations[intent.ReportAnnotation])
		if err == nil { // one that cannot be read says nothing
			found[name] = report
		}
	}
	return found, nil
}

// workersToUndo lists the workers with another version than before, and those that the upgrade began to change: a kubelet that does not
// start leaves the old version in its Node. The snapshot has the State of the preparation, so that one counts in no later run.
func workersToUndo(nodes []cluster.Node, set undo.Set, last State, reports map[string]intent.Report) (names []string) {
	for _, n := range nodes {
		if !n.ControlPlane() && (n.Version != "v"+set.From || last.about(set) && changed(last, n.Name, reports[n.Name], set)) {
			names = append(names, n.Name)
		}
	}
	return names
}

// changed reports whether a worker is as the upgrade left it. Another run of the upgrade forgets the error of a node, but not its report.
func changed(last State, name string, r intent.Report, set undo.Set) bool {
	of := last.Nodes[name]
	switch {
	case of == nil:
		return false
	case r.Upgrade == set.Upgrade && r.Operation == intent.Undo: // its stage is gone since the undo began with it
		return r.State != intent.Done
	case r.Upgrade == last.Upgrade && (r.Operation == intent.Upgrade || r.Operation == intent.Kubelet):
		return true
	}
	return of.Stage == Upgraded || of.Stage == Done || of.Error != ""
}

// about reports whether a set is of this upgrade.
func (s State) about(set undo.Set) bool { return s.Whole == set.Upgrade || s.Upgrade == set.Upgrade }

// checkKept refuses workers without copies, before any other is undone.
func (u *Undo) checkKept() error {
	if u.cluster == nil || !u.cluster.last.about(u.Set) {
		return nil // the agents of such workers refuse
	}
	for _, name := range u.Nodes {
		if u.cluster.last.Nodes[name] == nil {
			return fmt.Errorf("worker %s joined after the upgrade, and keeps nothing to go back to; "+
				"take it out with 'sealift node remove %s', undo the upgrade, and join it again", name, name)
		}
	}
	return nil
}

// LogFile is the log of this run.
func (u *Undo) LogFile() string { return u.revert.Restore.LogFile() }

// Close releases the lock of the node.
func (u *Undo) Close() error { return u.revert.Close() }

// Run undoes. It may be repeated after an interruption.
func (u *Undo) Run(ctx context.Context, observe func(lifecycle.Event), say func(string)) error {
	if err := u.revert.Restore.Check(ctx); err != nil {
		return err
	}
	if u.order != nil {
		if err := u.lead(ctx, observe, say); err != nil {
			return err
		}
	} else if !u.Restored {
		if err := u.alone(ctx, observe, say); err != nil {
			return err
		}
	}
	if err := forget(ctx, u.Set.From); err != nil {
		return err
	}
	// The journal is part of the state, and the end of the run is in it.
	if err := u.revert.PutBackState(); err != nil {
		return err
	}
	return u.Set.Remove()
}

// alone takes back a cluster with one control plane.
func (u *Undo) alone(ctx context.Context, observe func(lifecycle.Event), say func(string)) error {
	if err := u.workers(ctx, say); err != nil {
		return err
	}
	if err := u.revert.Restore.Run(ctx, observe); err != nil {
		return err
	}
	return u.Set.MarkRestored()
}

// workers undoes the workers, in sequence.
func (u *Undo) workers(ctx context.Context, say func(string)) error {
	for _, name := range u.Nodes {
		if err := u.worker(ctx, say, name); err != nil {
			return err
		}
	}
	return nil
}

// worker undoes one worker. The upgrade's record changes first: if the command were killed when the worker is back, no later run would
// know that.
func (u *Undo) worker(ctx context.Context, say func(string), name string) error {
	records := operation.RecordsOf(func() (kubernetes.Interface, error) { return u.cluster.admin.Client, nil })
	if err := records.Change(ctx, func(all record.All) error { return beginsAgain(all, u.Set, name) }); err != nil {
		return err
	}
	return leader.Of(u.cluster.view).Ask(ctx, say, name, intent.Intent{Upgrade: u.Set.Upgrade, Operation: intent.Undo, From: u.Set.From, UpgradeID: u.Set.Upgrade})
}

// beginsAgain has a worker that goes back wait for the upgrade again, also if all nodes were done: until the control planes go back, the
// upgrade may go on instead. The record excludes no more than before.
func beginsAgain(all record.All, set undo.Set, name string) error {
	r := all.Of(record.Upgrade)
	s, err := stateOf(r)
	if err != nil || !s.about(set) || s.Nodes[name] == nil {
		return err
	}
	*s.Nodes[name] = Node{}
	if s.Phase == AddOns || s.Phase == Finished {
		*r = r.In(workersStage)
		r.Paused, r.Ended = false, time.Time{}
	}
	r.Nodes = maps.Clone(r.Nodes)
	delete(r.Nodes, name)
	r.Params, err = json.Marshal(s.params())
	all[record.Upgrade] = *r
	return err
}

// forget removes the restored data's record of the upgrade, and waits for the earlier versions.
func forget(ctx context.Context, version string) error {
	admin, err := controlplane.AsAdministrator()
	if err != nil {
		return err
	}
	view, err := cluster.NewView()
	if err != nil {
		return err
	}
	return leader.RetryDuringOutage(ctx, func(ctx context.Context) error {
		if err := forgetRecords(ctx, record.Store{Client: admin.Client}, record.Upgrade, record.Undo); err != nil {
			return err
		}
		nodes, err := view.Nodes(ctx)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			if err := isOf(n, version); err != nil {
				return kube.NotYet(err)
			}
			if err := withdraw(ctx, view, n.Name); err != nil {
				return err
			}
		}
		return nil
	})
}

// isOf requires a node to be Ready with a version. One that is not Ready may have reported that version before its kubelet ended.
func isOf(n cluster.Node, version string) error {
	switch {
	case n.Version != "v"+version:
		return fmt.Errorf("node %s still runs %s", n.Name, n.Version)
	case !n.Ready:
		return fmt.Errorf("node %s is not Ready (%s); bring it back, or take it out with 'sealift node remove %s', and run the command again", n.Name, n.Why, n.Name)
	}
	return nil
}
