package upgrade

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/kube"
)

// prepareNode has another node prepare. The agent of an earlier sealift, which checks no signature, is replaced by that. On a control
// plane it also fails after that, because it cannot prove that it may have the Installer. So the new agent prepares again.
func (r *run) prepareNode(ctx context.Context, n cluster.Node, signed bool) error {
	err := r.ask(ctx, n.Name, intent.Prepare)
	if signed || !n.ControlPlane() && err != nil {
		return err
	}
	if replaced := r.awaitAgent(ctx, n.Name); replaced != nil {
		return errors.Join(err, replaced)
	}
	r.Say("node " + n.Name + ": its new agent carries out only what a control plane has signed")
	return r.ask(ctx, n.Name, intent.Prepare)
}

// agentTime is how long the new agent of a node may take to start.
const agentTime = 2 * time.Minute

// awaitAgent waits for the agent that checks signatures.
func (r *run) awaitAgent(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(agentTime))
	defer cancel()
	return kube.Poll(ctx, lookPause, func(ctx context.Context) error {
		hosts, err := r.agents(ctx)
		if err == nil && !hosts[name].Signed {
			err = kube.NotYet(fmt.Errorf("node %s still has the agent of an earlier sealift", name))
		}
		return err
	})
}
