package rotation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/pki"
	"github.com/sealift/sealift/installer/cluster/service"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/operation"
	"github.com/sealift/sealift/installer/operation/leader"
	"github.com/sealift/sealift/installer/operation/renewal"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube"
)

// pause is the time between two checks of the cluster.
const pause = 5 * time.Second

// ErrNoPart means that Options.Only names something other than the parts of a rotation.
var ErrNoPart = errors.New("not one of the parts that can be rotated")

// Prepare reads the CAs of this control plane, and plans a rotation. It changes nothing. Close must be called.
func Prepare(ctx context.Context, o Options) (_ *Rotation, err error) {
	for _, name := range o.Only {
		if !slices.Contains(authority.Names(), name) {
			return nil, fmt.Errorf("%q is %w: %s", name, ErrNoPart, strings.Join(authority.Names(), ", "))
		}
	}
	site, err := operation.Open(ctx, &o.Scope, Kind, nil)
	if err != nil {
		return nil, err
	}
	r := &Rotation{options: o, site: site, Session: site.Session, own: site.Own, pause: pause,
		client: func() (kubernetes.Interface, error) { return cluster.Client(kubeadm.AdminKubeconfig) }}
	n := nodes{site.Nodes(operation.Say(site.Log)), site}
	wait := time.Duration(0)
	if _, resumes, err := authority.Read(""); err != nil {
		return nil, err
	} else if resumes {
		wait = speed.Patience(readyTime)
	}
	if err := n.check(ctx, wait); err != nil {
		return nil, err
	}
	r.nodes, r.fetch = n, n.fetch
	if err = r.Lock(); err != nil {
		return nil, err
	}
	if err := r.begin(ctx, operation.RecordsOf(r.client), time.Now()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Run does the part of the rotation, while no upgrade and no renewal of certificates runs. It calls waiting with the host that runs one.
func (r *Rotation) Run(ctx context.Context, waiting func(holder string), observe func(lifecycle.Event)) error {
	return r.ended(r.site.Lead(ctx, r.run, waiting, observe))
}

// nodes are those of this host's cluster.
type nodes struct {
	operation.Nodes
	*operation.Site
}

// readyTime is how long a node may be down that a killed run left restarting.
const readyTime = 2 * time.Minute

// check refuses a cluster with a node that could not take its part. With wait, a node may come back meanwhile.
func (n nodes) check(ctx context.Context, wait time.Duration) error {
	_, noBundle := os.Stat(filepath.Join(n.Root, bundle.IndexName))
	end := time.Now().Add(wait)
	return poll.Until(ctx, pause, nil, func(ctx context.Context) (bool, error) {
		all, err := n.List(ctx)
		if err != nil {
			return false, err
		}
		away := slices.IndexFunc(all, func(one cluster.Node) bool { return !one.Ready })
		switch other := slices.IndexFunc(all, func(one cluster.Node) bool { return one.Name != n.Own }); {
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

// Apply implements operation.Nodes. Before anything restarts, etcd and the control planes have to be well.
func (n nodes) Apply(ctx context.Context, name string, r operation.Request) error {
	settled := func(ctx context.Context) error { return kube.NotYet(renewal.Settled(ctx)) } // etcd and nodes come back by themselves
	if err := leader.RetryDuringOutage(ctx, settled); err != nil {
		return fmt.Errorf("the cluster has to settle before node %s: %w", name, err)
	}
	return n.Nodes.Apply(ctx, name, r)
}

// askTime bounds the question to one control plane.
const askTime = 20 * time.Second

// fetch asks the other control planes for the rotation with an ID. None of them may be silent if none has it: it could be the one.
func (n nodes) fetch(ctx context.Context, id string) (s authority.State, ok bool, err error) {
	all, err := n.List(ctx)
	if err != nil {
		return s, false, err
	}
	ca, err := identity.ReadAuthority(kubeadm.PKI)
	if err != nil {
		return s, false, err
	}
	var silent []error
	for _, one := range all {
		if !one.ControlPlane() || one.Name == n.Own {
			continue
		}
		s, err := n.ask(ctx, one, ca)
		switch {
		case err != nil:
			silent = append(silent, fmt.Errorf("control plane %s: %w; bring it back, or remove it with 'sealift node remove %s'", one.Name, err, one.Name))
		case s.ID == id:
			return s, true, nil
		}
	}
	return s, false, errors.Join(silent...)
}

// ask returns the rotation that a control plane knows of; the zero State if it knows of none.
func (n nodes) ask(ctx context.Context, of cluster.Node, ca identity.Authority) (s authority.State, err error) {
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(askTime))
	defer cancel()
	client, err := share.NewNodeClient(share.Address(of.Address), filepath.Join(kubeadm.PKI, "ca.crt"), ca.Client(n.Own))
	if err != nil {
		return s, err
	}
	c, err := client.Cluster(ctx)
	if err != nil || c.Rotation == "" {
		return s, err
	}
	return authority.Parse([]byte(c.Rotation))
}

// bring brings a host to the stage of a rotation.
func bring(ctx context.Context, h operation.Host, r operation.Request) error {
	state, err := stateOf(ctx, h, r)
	if err != nil {
		return err
	}
	if err := (pki.Rotator{Root: h.Root, Output: h.Output, Step: h.Step}).Bring(ctx, state); err != nil {
		return err
	}
	switch {
	case h.Server == nil: // the command that leads needs the state until the end, and the agent does not know of the new CA
		return command.TryRestart(ctx, h.Output, service.Agent(h.Root).Name)
	case state.Stage == authority.Forget:
		return authority.Remove("")
	}
	return nil
}

// stateOf returns the rotation in the requested stage: that of this host in the command that leads, and in an agent what the
// control plane that asks gives to it.
func stateOf(ctx context.Context, h operation.Host, r operation.Request) (state authority.State, err error) {
	if h.Server == nil {
		state, ok, err := authority.Read("")
		if err == nil && !ok {
			err = fmt.Errorf("%s is gone; run the command again", authority.File)
		}
		return state, err
	}
	of, err := h.Cluster(ctx)
	if err != nil {
		return state, err
	}
	return asked(of.Rotation, r)
}

// asked reads the rotation that a control plane serves. It must be in the requested stage.
func asked(text string, r operation.Request) (state authority.State, err error) {
	if text == "" {
		return state, errors.New("the control plane that asks knows of no rotation of CAs for this node")
	}
	if state, err = authority.Parse([]byte(text)); err != nil {
		return state, err
	}
	if state.Request() != r.ID {
		return state, fmt.Errorf("the control plane that asks is at another stage of the rotation than this node was asked for: %s", state.Stage)
	}
	return state, nil
}
