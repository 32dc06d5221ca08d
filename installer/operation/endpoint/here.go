package endpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	hosts "github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/operation/intent"
)

// Follow lets only this node use another load balancer: one that was off while the others changed, or that no longer reaches the old
// one. It is ErrSame if the node does so already. It may be interrupted and repeated.
func Follow(ctx context.Context, o Options, address string, observe func(step string)) (err error) {
	to, err := Parse(address)
	if err != nil {
		return err
	}
	session, err := o.Begin(lifecycle.MovingAPI)
	if err != nil {
		return err
	}
	if err := (exclusion.Host{Root: o.Root}).Check(ctx, nil, exclusion.LoadBalancer); err != nil {
		return err
	}
	name, err := hosts.Name()
	if err != nil {
		return err
	}
	if err := session.Lock(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	err = Node{Root: o.Root, Name: name, Output: session.Log, Step: observe}.follow(ctx, to)
	if err != nil && !errors.Is(err, ErrSame) {
		return fmt.Errorf("%w\nlog: %s", err, session.LogFile())
	}
	return err
}

func (n Node) follow(ctx context.Context, to string) error {
	h := n.host()
	from, err := h.endpoint()
	if err != nil {
		return err
	}
	begun, err := h.marked()
	if err != nil {
		return err
	}
	m := intent.Move{From: from, To: to}
	switch {
	case begun != nil && begun.To == to:
		m = *begun // the kubeconfigs may have been written already
	case from == to:
		return ErrSame
	}
	if err := refuseOwn(m.From); err != nil {
		return err
	}
	n.finish = func(ctx context.Context) error {
		client, err := cluster.Client(h.Path(kubeadm.KubeletKubeconfig))
		if err != nil {
			return err
		}
		bounded, cancel := context.WithTimeout(ctx, speed.Patience(shortTime))
		defer cancel()
		return restartDaemons(bounded, client, "spec.nodeName="+n.Name, time.Now(), func(string) bool { return true }) // a kubelet may see only its own pods
	}
	for _, stage := range []string{Both, Switch} {
		m.Stage = stage
		if err := n.Bring(ctx, m); err != nil {
			return err
		}
	}
	return nil
}
