package endpoint

import (
	"context"
	"errors"
	"net"
	"time"

	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/operation"
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
	site, err := operation.Open(ctx, &o.Scope, Kind, direct)
	if err != nil {
		return nil, err
	}
	c := &Change{options: o, site: site, client: site.Admin.Client, objects: site.View.Cluster(), moved: map[string]bool{}, Session: site.Session, nodes: site.Nodes(operation.Say(site.Log))}
	c.host = Node{Root: o.Root, Name: site.Own, Output: c.Log}
	if err = c.Lock(); err != nil {
		return nil, err
	}
	from, err := site.Admin.Endpoint(ctx)
	if err == nil {
		err = c.begin(ctx, site.Records(), from, to, time.Now())
	}
	if err == nil {
		err = c.check(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// direct has the rights of an administrator, and asks the API server of this host if that answers: the load balancer may be gone.
func direct(ctx context.Context, site *operation.Site) (*rest.Config, error) {
	config, err := cluster.Config(kubeadm.AdminKubeconfig)
	if err != nil {
		return nil, err
	}
	config.Timeout = time.Minute
	if own := net.JoinHostPort(site.Admin.Address, cluster.APIPort); balancer.NewProber().Ready(ctx, own) == nil {
		config.Host = "https://" + own
	}
	return config, nil
}

// Run makes the change, while no upgrade and no renewal of certificates runs. It calls waiting with the host that runs one.
func (c *Change) Run(ctx context.Context, waiting func(holder string), observe func(lifecycle.Event)) error {
	return c.site.Lead(ctx, c.run, waiting, observe)
}
