package rotation

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
	"time"

	"github.com/sealift/sealift/installer/cluster/kubeadm"

	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/cluster/controlplane"
	"github.com/sealift/sealift/installer/cluster/pki"
	"github.com/sealift/sealift/installer/cluster/service"
	"github.com/sealift/sealift/installer/cluster/share"
	hostinfo "github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/installer/operation/leader"
	"github.com/sealift/sealift/installer/operation/renewal"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube"
)

// pause is the time between two checks of the cluster.
const pause = 5 * time.Second

// ErrNoPart means that Options.Only names something other than the parts of a rotation.
var ErrNoPart = errors.New("none of the parts that can be rotated")

// Prepare reads the CAs of this control plane, and plans a rotation. It changes nothing. Close must be called.
func Prepare(ctx context.Context, o Options) (_ *Rotation, err error) {
	for _, name := range o.Only {
		if !slices.Contains(authority.Names(), name) {
			return nil, fmt.Errorf("%q is %w: %s", name, ErrNoPart, strings.Join(authority.Names(), ", "))
		}
	}
	session, err := o.Begin(lifecycle.RotatingCAs)
	if err != nil {
		return nil, err
	}
	r := &Rotation{options: o, Session: session, pause: pause,
		client: func() (kubernetes.Interface, error) { return cluster.Client(kubeadm.AdminKubeconfig) }}
	admin, err := controlplane.AsAdministrator()
	if err != nil {
		return nil, err
	}
	if r.own, err = hostinfo.Name(); err != nil {
		return nil, err
	}
	config, err := cluster.Config(kubeadm.AdminKubeconfig)
	if err != nil {
		return nil, err
	}
	view, err := cluster.ViewOf(config, false)
	if err != nil {
		return nil, err
	}
	if err := r.on().Check(ctx, admin.Client, exclusion.CAs); err != nil {
		return nil, err
	}
	n := &nodes{own: r.own, root: o.Root, admin: admin, view: view, output: r.Log}
	wait := time.Duration(0)
	if _, resumes, err := authority.Read(""); err != nil {
		return nil, err
	} else if resumes {
		wait = readyTime
	}
	if err := n.check(ctx, wait); err != nil {
		return nil, err
	}
	r.nodes, r.cluster = n, view.Cluster()
	if err = r.Lock(); err != nil {
		return nil, err
	}
	if err := r.begin(ctx, time.Now()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Rotation) on() exclusion.Host { return exclusion.Host{Root: r.options.Root} }

// Run does the part of the rotation, while no upgrade and no renewal of certificates is running. waiting gets the holder of the
// lock.
func (r *Rotation) Run(ctx context.Context, waiting func(holder string), observe func(lifecycle.Event)) error {
	return exclusion.WithClusterLock(ctx, r.cluster, r.on(), exclusion.CAs, waiting, func(ctx context.Context) error { return r.run(ctx, r.Log.Narrate(observe)) })
}

// nodes are those of this host's cluster.
type nodes struct {
	own    string
	root   string
	admin  controlplane.Administrator
	view   *cluster.View
	output io.Writer
}

// readyTime is how long a node may be down that a killed run left restarting.
const readyTime = 2 * time.Minute

// check refuses a cluster with a node that could not take its part. With wait, a node may come back in the meantime.
func (n *nodes) check(ctx context.Context, wait time.Duration) error {
	_, noBundle := os.Stat(filepath.Join(n.root, bundle.IndexName))
	end := time.Now().Add(wait)
	return poll.Until(ctx, pause, nil, func(ctx context.Context) (bool, error) {
		all, err := n.nodes(ctx)
		if err != nil {
			return false, err
		}
		away := slices.IndexFunc(all, func(one cluster.Node) bool { return !one.Ready })
		switch other := slices.IndexFunc(all, func(one cluster.Node) bool { return one.Name != n.own }); {
		case other >= 0 && errors.Is(noBundle, fs.ErrNotExist): // see package service
			return false, fmt.Errorf("this node was adopted, and serves nothing to node %s before its first upgrade; run 'sealift upgrade' first", all[other].Name)
		case away < 0:
			return true, nil
		}
		one := all[away]
		err = fmt.Errorf("node %s is not Ready (%s), and would not get the new CAs; bring it back, or remove it with 'sealift node remove %s'", one.Name, one.Why, one.Name)
		if !time.Now().After(end) {
			err = poll.NotYet(err)
		}
		return false, err
	})
}

// nodes are those that the API has. It is asked until it answers: a run that was killed may have left it restarting.
func (n *nodes) nodes(ctx context.Context) (all []cluster.Node, err error) {
	err = leader.RetryDuringOutage(ctx, func(ctx context.Context) (err error) {
		all, err = n.view.Nodes(ctx)
		return err
	})
	return all, err
}

// List implements Nodes.
func (n *nodes) List(ctx context.Context) (controlPlanes, workers []string, err error) {
	all, err := n.nodes(ctx)
	controlPlanes = []string{n.own}
	for _, one := range all {
		switch {
		case one.Name == n.own:
		case one.ControlPlane():
			controlPlanes = append(controlPlanes, one.Name)
		default:
			workers = append(workers, one.Name)
		}
	}
	return controlPlanes, workers, err
}

// Bring implements Nodes. Before anything restarts, etcd and the control planes have to be healthy.
func (n *nodes) Bring(ctx context.Context, name string, s authority.State) error {
	settled := func(ctx context.Context) error { return kube.NotYet(renewal.Settled(ctx)) } // etcd and nodes recover on their own
	if err := leader.RetryDuringOutage(ctx, settled); err != nil {
		return fmt.Errorf("the cluster has to settle before: %w", err)
	}
	say := func(line string) { fmt.Fprintln(n.output, line) }
	if name != n.own {
		return leader.Of(n.view).Ask(ctx, say, name, intent.Intent{Upgrade: s.Request(), Operation: intent.Rotate, Server: share.Address(n.admin.Address)})
	}
	if err := (pki.Rotator{Root: n.root, Output: n.output, Step: say}).Bring(ctx, s); err != nil {
		return err
	}
	return command.TryRestart(ctx, n.output, service.Agent(n.root).Name)
}
