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

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/installer/operation/leader"
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

// lead takes all control planes back. Until the order says Committed, each prepares, and running programs do not change; any failure
// ends the undo for all. From then on each is undone on its own. The API answers as soon as most of them have.
func (u *Undo) lead(ctx context.Context, observe func(lifecycle.Event), say func(string)) error {
	if u.order.Stage == undo.Prepared {
		waiting := func(holder string) { say("waiting for " + holder + ", which restarts control planes") }
		if err := exclusion.WithClusterLock(ctx, u.cluster.view.Cluster(), exclusion.Host{Root: u.root}, exclusion.Undo, waiting, func(ctx context.Context) error {
			return u.arm(ctx, observe, say)
		}); err != nil {
			return errors.Join(err, restore.Abort(u.order.ID), u.Set.DropOrder()) // the others see that there is none
		}
		if err := u.enter(undo.Committed); err != nil {
			return err
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

// arm has every control plane create etcd's data from the snapshot, and then undoes the workers.
func (u *Undo) arm(ctx context.Context, observe func(lifecycle.Event), say func(string)) error {
	if err := u.Set.WriteOrder(*u.order); err != nil {
		return err
	}
	if err := u.revert.Restore.Arm(ctx, observe); err != nil {
		return err
	}
	group, armed := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, name := range u.others() {
		group.Go(func() error {
			return leader.Of(u.cluster.view).Ask(armed, say, name, intent.Intent{Upgrade: u.order.ID, Operation: intent.Arm,
				Index: u.order.Digest(), Server: u.order.Server, From: u.Set.From, UpgradeID: u.Set.Upgrade})
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return u.workers(ctx, say)
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
