package upgrade

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/installer/operation/leader"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/rollout"
)

// How long a node has to be healthy before the next one begins, the timeout for that, and how often it is checked.
const (
	settleTime  = 10 * time.Second
	settleBound = 10 * time.Minute
	lookPause   = 2 * time.Second
)

// waves are the control planes one by one, this node first, and then the workers.
func (r *run) waves(paused bool) rollout.Spec {
	one := rollout.Amount{Value: 1}
	return rollout.Spec{Change: r.state.Upgrade, Paused: paused, Waves: []rollout.Wave{
		{Name: "control planes", AtOnce: one, Mandatory: true},
		{Name: "workers", AtOnce: rollout.Amount{Value: r.MaxUnavailable}, Mandatory: true},
	}}
}

// targets are the nodes as the rollout sees them.
func (r *run) targets(working map[string]bool) (targets []rollout.Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.nodes {
		t := rollout.Target{Name: n.Name, Wave: 1, Status: rollout.Waiting}
		if n.ControlPlane() {
			t.Wave = 0
		}
		if n.Name != r.own {
			t.Order = 1
		}
		switch of := r.state.Nodes[n.Name]; {
		case of.Stage == Done:
			t.Status = rollout.Succeeded
		case of.Error != "":
			t.Status = rollout.Failed
		case working[n.Name]:
			t.Status = rollout.Working
		}
		targets = append(targets, t)
	}
	return targets
}

// ended is the end of the work on a node.
type ended struct {
	node string
	err  error
}

// upgradeNodes upgrades all nodes in the order that the rollout decides. The first failure lets no more begin; those at work
// are waited for.
func (r *run) upgradeNodes(ctx context.Context) error {
	if err := r.saveEtcd(ctx); err != nil {
		return err
	}
	ends, working := make(chan ended, len(r.nodes)), map[string]bool{}
	var first error
	told := false
	for {
		paused, err := r.paused(ctx)
		if err != nil {
			return err
		}
		decision, err := rollout.Decide(r.waves(paused), r.targets(working), r.state.Rollout, time.Now())
		if err != nil {
			return err
		}
		if err := r.change(ctx, func(s *State) { s.Rollout = decision.State }); err != nil {
			return err
		}
		if ctx.Err() == nil {
			for _, name := range decision.With(rollout.Start) {
				if !working[name] {
					working[name] = true
					go func() { ends <- ended{name, r.upgradeNode(ctx, name)} }()
				}
			}
		}
		if len(working) == 0 && decision.Phase != rollout.Paused {
			if first == nil {
				first = context.Cause(ctx)
			}
			if first == nil && decision.Phase != rollout.Done {
				first = fmt.Errorf("no other node can start: %s", decision.Phase)
			}
			return first
		}
		if paused != told {
			told = paused
			r.Say(map[bool]string{true: "paused: no further node begins until 'sealift upgrade resume'", false: "resumed"}[paused])
		}
		select {
		case end := <-ends:
			delete(working, end.node)
			if end.err == nil {
				break
			}
			if first == nil {
				first = end.err
			}
			if ctx.Err() == nil {
				err := r.change(ctx, func(s *State) { s.Nodes[end.node].Error = end.err.Error() })
				if err != nil {
					return err
				}
			}
		case <-time.After(lookPause):
			if ctx.Err() != nil && len(working) == 0 {
				return context.Cause(ctx)
			}
		}
	}
}

func (r *run) paused(ctx context.Context) (paused bool, err error) {
	if ctx.Err() != nil {
		return false, nil //nolint:nilerr // running nodes finish on their own
	}
	err = leader.RetryDuringOutage(ctx, func(ctx context.Context) (err error) {
		_, paused, err = r.store.read(ctx)
		return err
	})
	return paused, err
}

// upgradeNode takes one node through its stages.
func (r *run) upgradeNode(ctx context.Context, name string) error {
	began := time.Now()
	r.Say("node " + name + ": begins")
	if r.stage(name) != Upgraded {
		if err := r.do(ctx, name, intent.Upgrade); err != nil {
			return err
		}
		if err := r.advance(ctx, name, Upgraded); err != nil {
			return err
		}
	}
	left := time.Now()
	if err := r.drain(ctx, name); err != nil {
		return err
	}
	if err := r.do(ctx, name, intent.Kubelet); err != nil {
		return err
	}
	if err := leader.RetryDuringOutage(ctx, func(ctx context.Context) error { return r.view.Uncordon(ctx, name, r.state.Upgrade) }); err != nil {
		return err
	}
	away := time.Since(left)
	if err := r.settle(ctx, name); err != nil {
		return err
	}
	r.Say(fmt.Sprintf("node %s: done in %s, away for %s", name, time.Since(began).Round(time.Second), away.Round(time.Second)))
	return r.change(ctx, func(s *State) {
		of := s.Nodes[name]
		of.Stage, of.Error, of.Took, of.Away = Done, "", time.Since(began).Seconds(), away.Seconds()
	})
}

// do has a node do one operation: this one here, another by its agent.
func (r *run) do(ctx context.Context, name string, operation intent.Operation) error {
	if name != r.own {
		return r.ask(ctx, name, operation)
	}
	_, err := r.in.RunPhases(ctx, r.Observe, lifecycle.Phase(operation))
	return err
}

// drain lets pods leave a node, unless they stay.
func (r *run) drain(ctx context.Context, name string) error {
	if r.state.KeepPods {
		return nil
	}
	if err := leader.RetryDuringOutage(ctx, func(ctx context.Context) error { return r.view.Cordon(ctx, name, r.state.Upgrade) }); err != nil {
		return err
	}
	if err := r.view.Evict(ctx, name, r.DrainTimeout, r.Output); err != nil {
		back := r.view.Uncordon(context.WithoutCancel(ctx), name, r.state.Upgrade)
		if back != nil {
			r.Say(back.Error())
		}
		return fmt.Errorf("%w; node %s takes pods again, and still runs the version before. Make room for these pods, or change their PodDisruptionBudget, and run the command again", err, name)
	}
	return nil
}

// settle waits until a node and its pods are healthy for a while.
func (r *run) settle(ctx context.Context, name string) error {
	bounded, cancel := context.WithTimeout(ctx, speed.Patience(settleBound))
	defer cancel()
	well := time.Time{}
	err := poll.Until(bounded, lookPause, poll.Print(r.Output, "node "+name), func(ctx context.Context) (bool, error) {
		why, err := r.view.Settled(ctx, name)
		if err == nil && why != "" {
			err = errors.New(why)
		}
		switch {
		case err != nil:
			well = time.Time{}
		case well.IsZero():
			well = time.Now()
		}
		return err == nil && time.Since(well) >= settleTime, poll.NotYet(err)
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("node %s has the new version, but is not healthy: %w; repair that, and run the command again", name, err)
	}
	return nil
}

// ask has the agent of another node do an operation of the upgrade.
func (r *run) ask(ctx context.Context, name string, operation intent.Operation) error {
	return leader.Of(r.view).Ask(ctx, r.Say, name, intent.Intent{
		Upgrade: r.state.Upgrade, Operation: operation, Index: r.in.Digest(), Sealift: r.sealift, Server: share.Address(r.admin.Address), From: r.in.From(),
		UpgradeID: r.in.WholeUpgrade(),
	})
}
