package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/installer/cluster/controlplane"
	hosts "github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/installer/operation/leader"
)

// Prepare looks at the cluster from this control plane, and at what a change would do. It changes nothing. With Finish, the address may
// be empty. Close must be called.
func Prepare(ctx context.Context, o Options, address string) (_ *Change, err error) {
	to := ""
	if address != "" || !o.Finish {
		if to, err = Parse(address); err != nil {
			return nil, err
		}
	}
	session, err := o.Begin(lifecycle.MovingAPI)
	if err != nil {
		return nil, err
	}
	admin, err := controlplane.AsAdministrator()
	if err != nil {
		return nil, err
	}
	own, err := hosts.Name()
	if err != nil {
		return nil, err
	}
	config, err := direct(ctx, admin.Address)
	if err != nil {
		return nil, err
	}
	view, err := cluster.ViewOf(config, false)
	if err != nil {
		return nil, err
	}
	c := &Change{options: o, objects: view.Cluster(), moved: map[string]bool{}, Session: session}
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if err := c.on().Check(ctx, c.client, exclusion.LoadBalancer); err != nil {
		return nil, err
	}
	c.host = Node{Root: o.Root, Name: own, Output: c.Log, Step: func(line string) { fmt.Fprintf(c.Log, "node %s: %s\n", own, line) }}
	c.nodes = realNodes{c.host, view}
	if err = c.Lock(); err != nil {
		return nil, err
	}
	if err := c.look(ctx, admin, to); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Change) look(ctx context.Context, admin controlplane.Administrator, to string) error {
	admin.Client = c.client
	from, err := admin.Endpoint(ctx)
	if err != nil {
		return err
	}
	if err := c.begin(ctx, from, to, time.Now()); err != nil {
		return err
	}
	return c.check(ctx)
}

// direct has the rights of an administrator, and asks the API server of this host if that answers: the load balancer may be gone.
func direct(ctx context.Context, address string) (*rest.Config, error) {
	config, err := cluster.Config(cluster.AdminKubeconfig)
	if err != nil {
		return nil, err
	}
	config.Timeout = time.Minute
	if own := net.JoinHostPort(address, cluster.APIPort); balancer.NewProber().Ready(ctx, own) == nil {
		config.Host = "https://" + own
	}
	return config, nil
}

func (c *Change) on() exclusion.Host { return exclusion.Host{Root: c.options.Root} }

// Run makes the change, while no upgrade and no renewal of certificates is at work. waiting is told who is.
func (c *Change) Run(ctx context.Context, waiting func(holder string), observe func(lifecycle.Event)) error {
	return exclusion.WithClusterLock(ctx, c.objects, c.on(), exclusion.LoadBalancer, waiting, func(ctx context.Context) error {
		return c.runSteps(ctx, c.Log.Narrate(observe))
	})
}

// realNodes are those of this host's cluster.
type realNodes struct {
	own  Node
	view *cluster.View
}

func (n realNodes) list(ctx context.Context) (all []cluster.Node, err error) {
	err = leader.RetryDuringOutage(ctx, func(ctx context.Context) (err error) {
		all, err = n.view.Nodes(ctx)
		return err
	})
	rank := func(one cluster.Node) int {
		switch {
		case one.Name == n.own.Name:
			return 0
		case one.ControlPlane():
			return 1
		}
		return 2
	}
	slices.SortStableFunc(all, func(a, b cluster.Node) int { return rank(a) - rank(b) })
	return all, err
}

func (n realNodes) bring(ctx context.Context, name string, m intent.Move, request string) error {
	if name == n.own.Name {
		if err := n.own.Bring(ctx, m); err != nil {
			return fmt.Errorf("node %s: %w", name, err)
		}
		return nil
	}
	return leader.Of(n.view).Ask(ctx, func(line string) { fmt.Fprintln(n.own.Output, line) }, name, intent.Intent{Upgrade: request, Operation: intent.Balance, Move: &m})
}
