package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/installer/operation/leader"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube"
)

// How long a node has to be healthy before the next one begins, the timeout for that, and how often it is checked.
const (
	settleTime  = 10 * time.Second
	settleBound = 10 * time.Minute
	lookPause   = 2 * time.Second
)

// upgradeNode takes one node through its stages.
func (h *hands) upgradeNode(ctx context.Context, name string) error {
	began := time.Now()
	h.Say("node " + name + ": begins")
	if h.stage(name) != Upgraded {
		if err := h.do(ctx, name, intent.Upgrade); err != nil {
			return err
		}
		if err := h.advance(ctx, name, Upgraded); err != nil {
			return err
		}
	}
	left := time.Now()
	if err := h.drain(ctx, name); err != nil {
		return err
	}
	if err := h.do(ctx, name, intent.Kubelet); err != nil {
		return err
	}
	if err := leader.RetryDuringOutage(ctx, func(ctx context.Context) error { return h.view.Uncordon(ctx, name, h.id) }); err != nil {
		return err
	}
	away := time.Since(left)
	if err := h.settle(ctx, name); err != nil {
		return err
	}
	h.Say(fmt.Sprintf("node %s: done in %s, away for %s", name, time.Since(began).Round(time.Second), away.Round(time.Second)))
	return h.change(ctx, func(s *State) {
		*s.Nodes[name] = Node{Stage: Done, Took: time.Since(began).Seconds(), Away: away.Seconds()}
	})
}

// do has a node do one operation: this one here, another by its agent.
func (h *hands) do(ctx context.Context, name string, operation intent.Operation) error {
	if name != h.own {
		return h.ask(ctx, name, operation)
	}
	_, err := h.in.RunPhases(ctx, h.Observe, lifecycle.Phase(operation))
	return err
}

// drain lets pods leave a node, unless they stay.
func (h *hands) drain(ctx context.Context, name string) error {
	if h.state.KeepPods || slices.ContainsFunc(h.nodes, func(n cluster.Node) bool { return n.Name == name && unchanged(n, h.state.Changes, h.state.To) }) {
		return nil
	}
	if err := leader.RetryDuringOutage(ctx, func(ctx context.Context) error { return h.view.Cordon(ctx, name, h.id) }); err != nil {
		return err
	}
	if err := h.view.Evict(ctx, name, h.DrainTimeout, h.Output); err != nil {
		back := h.view.Uncordon(context.WithoutCancel(ctx), name, h.id)
		if back != nil {
			h.Say(back.Error())
		}
		return fmt.Errorf("%w; node %s takes pods again, and still runs the version before. Make room for these pods, or change their PodDisruptionBudget, and run the command again", err, name)
	}
	return nil
}

// settle waits until a node and its pods are healthy for a while.
func (h *hands) settle(ctx context.Context, name string) error {
	bounded, cancel := context.WithTimeout(ctx, speed.Patience(settleBound))
	defer cancel()
	well := time.Time{}
	err := poll.Until(bounded, lookPause, poll.Print(h.Output, "node "+name), func(ctx context.Context) (bool, error) {
		why, err := h.view.Settled(ctx, name)
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
func (h *hands) ask(ctx context.Context, name string, operation intent.Operation) error {
	return leader.Of(h.view).Ask(ctx, h.Say, name, intent.Intent{
		Upgrade: h.id, Operation: operation, Index: h.in.Digest(), Sealift: h.sealiftFor(name), Server: share.Address(h.admin.Address), From: h.in.From(),
		UpgradeID: h.in.WholeUpgrade(),
	})
}

// sealiftFor returns the digest of the program for a node.
func (h *hands) sealiftFor(name string) string {
	for _, n := range h.nodes {
		if other := otherPlatform(n); n.Name == name && other != "" {
			return h.in.Sealift(other)
		}
	}
	return h.sealift
}

// otherPlatform returns the platform of a node that has another one than this host, or "".
func otherPlatform(n cluster.Node) string {
	if is := "linux/" + n.Architecture; n.Architecture != "" && is != host.Platform {
		return is
	}
	return ""
}

// prepareNode has another node prepare. The agent of an earlier sealift, which checks no signature, is replaced by that. On a control
// plane it also fails after that, because it cannot prove that it may have the Installer. So the new agent prepares again.
func (h *hands) prepareNode(ctx context.Context, name string) error {
	err := h.ask(ctx, name, intent.Prepare)
	worker := slices.ContainsFunc(h.nodes, func(n cluster.Node) bool { return n.Name == name && !n.ControlPlane() })
	if h.described[name].Signed || worker && err != nil {
		return err
	}
	if replaced := h.awaitAgent(ctx, name); replaced != nil {
		return errors.Join(err, replaced)
	}
	h.Say("node " + name + ": its new agent carries out only what a control plane has signed")
	return h.ask(ctx, name, intent.Prepare)
}

// agentTime is how long the new agent of a node may take to start.
const agentTime = 2 * time.Minute

// awaitAgent waits for the agent that checks signatures.
func (h *hands) awaitAgent(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(agentTime))
	defer cancel()
	return kube.Poll(ctx, lookPause, func(ctx context.Context) error {
		hosts, err := h.agents(ctx)
		if err == nil && !hosts[name].Signed {
			err = kube.NotYet(fmt.Errorf("node %s still has the agent of an earlier sealift", name))
		}
		return err
	})
}
