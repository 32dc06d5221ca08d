package upgrade

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/operation"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/installer/operation/leader"
	"github.com/sealift/sealift/installer/operation/record"
	"github.com/sealift/sealift/installer/recovery/restore"
	"github.com/sealift/sealift/installer/recovery/undo"
	"github.com/sealift/sealift/internal/poll"
)

// ControlPlanes are those that are undone together; none if this is the only one.
func (u *Undo) ControlPlanes() (names []string) {
	if u.order == nil {
		return nil
	}
	for _, m := range u.order.Members {
		names = append(names, m.Name)
	}
	return names
}

// gather makes the order for the control planes of this cluster. It refuses a cluster in which one of them could not take its part.
func (u *Undo) gather(ctx context.Context) error {
	if u.Away != "" {
		return fmt.Errorf("the API does not answer, and the other control planes (%s) can be asked only through it: %s; bring it back first (see 'sealift status')",
			strings.Join(u.revert.Restore.Others(), ", "), u.Away)
	}
	if silent, _, err := cluster.EtcdHealth(ctx); err != nil {
		return err
	} else if len(silent) > 0 {
		return fmt.Errorf("members of etcd do not answer: %s; all control planes go back together, so repair these first", strings.Join(silent, ", "))
	}
	was, now := u.revert.Restore.Members()
	if err := sameMembers(was, now); err != nil {
		return err
	}
	agents, err := u.cluster.agents(ctx)
	if err != nil {
		return err
	}
	if err := takePart(now, u.cluster.nodes, agents, u.own); err != nil {
		return err
	}
	digest, err := u.revert.Snapshot()
	if err != nil {
		return err
	}
	id := make([]byte, 8)
	_, _ = rand.Read(id) // it never fails
	u.order = &undo.JointUndo{ID: hex.EncodeToString(id), Upgrade: u.Set.Upgrade, Leader: u.own, Server: share.Address(u.cluster.admin.Address),
		Snapshot: digest, Members: now, Stage: undo.Prepared}
	return u.revert.Join(*u.order)
}

// sameMembers requires etcd to have the members that it had when the snapshot was taken.
func sameMembers(was, now []cluster.EtcdMember) error {
	missing := func(all, in []cluster.EtcdMember) (names []string) {
		for _, m := range all {
			if !slices.ContainsFunc(in, func(o cluster.EtcdMember) bool { return o.Name == m.Name && slices.Equal(o.Peers, m.Peers) }) {
				names = append(names, m.Name)
			}
		}
		return names
	}
	came, left := missing(now, was), missing(was, now)
	switch {
	case len(came) > 0:
		return fmt.Errorf("%s joined, or got another address, after the upgrade began, and keeps nothing to go back to; take it out with 'sealift node remove', undo the upgrade, and join it again", strings.Join(came, ", "))
	case len(left) > 0:
		return fmt.Errorf("control plane %s has left the cluster since the upgrade began, so the control planes cannot be undone together; restore a snapshot instead, as docs/snapshots.md says", strings.Join(left, ", "))
	}
	return nil
}

// takePart requires every other member to be a Ready node with an agent.
func takePart(members []cluster.EtcdMember, nodes []cluster.Node, agents map[string]intent.Host, own string) error {
	for _, m := range members {
		at := slices.IndexFunc(nodes, func(n cluster.Node) bool { return n.Name == m.Name })
		switch {
		case at < 0 || !nodes[at].ControlPlane():
			return fmt.Errorf("the member %s of etcd is not a control plane of this cluster; remove it from etcd first", m.Name)
		case m.Name == own:
		case !nodes[at].Ready:
			return fmt.Errorf("control plane %s is not Ready (%s); all control planes go back together, so bring it back first", m.Name, nodes[at].Why)
		case agents[m.Name].Time.IsZero():
			return fmt.Errorf("no agent on control plane %s; run 'sealift node agent --start' there as root", m.Name)
		}
	}
	return nil
}

// The stages of an undo of several control planes, until it can no longer be stopped. Nothing is half done before: see package exclusion.
const (
	prepareUndoStage = "undo/prepare"
	undoWorkersStage = "undo/workers"
	commitStage      = "undo/commit"
)

// lead takes all control planes back. Until the order says Committed, each prepares, and running programs do not change; any failure
// ends the undo for all. From then on each is undone on its own. The API answers as soon as most of them have.
func (u *Undo) lead(ctx context.Context, observe func(lifecycle.Event), say func(string)) error {
	if u.order.Stage == undo.Prepared {
		if err := u.commit(ctx, observe, say); err != nil && u.order.Stage != undo.Prepared {
			return err // others may know
		} else if err != nil {
			return errors.Join(err, restore.Abort(u.order.ID), u.Set.DropOrder()) // the others see that there is none
		}
		say("all control planes go back now: " + strings.Join(u.ControlPlanes(), ", "))
	}
	if u.order.Stage == undo.Committed {
		if err := u.revert.Restore.Run(ctx, observe); err != nil {
			return err
		}
		if err := u.enter(undo.Restored); err != nil {
			return err
		}
	}
	return u.await(ctx, say)
}

func (u *Undo) enter(stage undo.Stage) error {
	o := u.order.In(stage)
	u.order = &o
	return u.Set.WriteOrder(o)
}

// commit prepares everything, and then commits the order, while no other host of the cluster works on control planes.
func (u *Undo) commit(ctx context.Context, observe func(lifecycle.Event), say func(string)) error {
	site := &operation.Site{Session: u.revert.Restore.Session, Kind: operation.Kind{Name: record.Undo}, Own: u.own, Admin: u.cluster.admin, View: u.cluster.view}
	run := u.plan(site.Records(), goingBack{site.Nodes(say), u, say}, func(ctx context.Context) error { return u.revert.Restore.PrepareData(ctx, observe) })
	err := site.Lead(ctx, run, func(holder string) { say("waiting for " + holder + ", which restarts control planes") }, func(lifecycle.Event) {})
	if err == nil || u.order.Stage != undo.Prepared {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), apiTime)
	defer cancel()
	return errors.Join(err, forgetRecords(ctx, run.Records, record.Undo))
}

// plan has every control plane make etcd's data of the snapshot, this one first, then undoes the workers, and then commits the order. The
// record goes with etcd's present data.
func (u *Undo) plan(records operation.Records, nodes operation.Nodes, prepare func(context.Context) error) *operation.Run {
	others := u.others()
	return &operation.Run{Own: u.own, Records: records, Nodes: nodes, Vanishes: true, Choose: func(*record.Record) error { return nil },
		Record: record.Record{ID: u.order.ID, Kind: record.Undo, Began: time.Now().UTC(), About: record.Undoing(u.Set.From), Next: record.ResumeUndo(u.own)},
		Stages: []operation.Stage{
			{ID: prepareUndoStage, Loose: true, AtOnce: atOnce, Nodes: func(n cluster.Node) bool { return slices.Contains(others, n.Name) }, Before: func(ctx context.Context) error {
				if err := u.Set.WriteOrder(*u.order); err != nil {
					return err
				}
				return prepare(ctx)
			}},
			{ID: undoWorkersStage, Loose: true, AtOnce: 1, Nodes: func(n cluster.Node) bool { return slices.Contains(u.Nodes, n.Name) }},
			{ID: commitStage, Loose: true, Before: func(context.Context) error { return u.enter(undo.Committed) }},
		}}
}

// goingBack asks nodes to undo.
type goingBack struct {
	operation.Nodes
	u   *Undo
	say func(string)
}

// Apply implements operation.Nodes.
func (n goingBack) Apply(ctx context.Context, name string, r operation.Request) error {
	if r.Stage == undoWorkersStage {
		return n.u.worker(ctx, n.say, name)
	}
	o := n.u.order
	return leader.Of(n.u.cluster.view).Ask(ctx, n.say, name, intent.Intent{Upgrade: o.ID, Operation: intent.PrepareUndo, Index: o.Digest(), Server: o.Server, From: n.u.Set.From, UpgradeID: o.Upgrade})
}

// others are the control planes besides this one.
func (u *Undo) others() []string {
	return slices.DeleteFunc(u.ControlPlanes(), func(name string) bool { return name == u.own })
}

// backTime is how long the undo of the other control planes may take. They began with this one.
const backTime = 20 * time.Minute

// await waits until the other control planes report that they are restored, or have left the cluster.
func (u *Undo) await(ctx context.Context, say func(string)) error {
	view, err := cluster.NewView()
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, speed.Patience(backTime))
	defer cancel()
	for _, name := range u.others() {
		err := poll.Until(bounded, lookPause, nil, poll.Success(func(ctx context.Context) error {
			report, err := leader.Of(view).Report(ctx, name)
			if apierrors.IsNotFound(err) {
				say("node " + name + ": has left the cluster")
				return nil
			}
			if err == nil {
				err = isBack(report, u.order.ID)
			}
			if err == nil {
				say(fmt.Sprintf("node %s: is back, in %.0f s", name, report.Seconds))
			}
			return err
		}))
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return fmt.Errorf("control plane %s is not back: %w; repair it, or take it out with 'sealift node remove %s', and run the command again", name, err, name)
		}
	}
	return nil
}

// isBack reads the report of a control plane about an undo.
func isBack(report intent.Report, id string) error {
	switch {
	case report.Upgrade != id || report.Operation != intent.Undo:
		return errors.New("it has not reported it; see 'journalctl --unit sealift-agent' there")
	case report.State == intent.Failed:
		return errors.New(report.Error)
	case report.State != intent.Done:
		return errors.New("it is still working")
	}
	return nil
}
