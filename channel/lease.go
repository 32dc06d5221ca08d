package channel

import (
	"context"
	"errors"
	"fmt"

	"github.com/sealift/sealift/addon"
	"github.com/sealift/sealift/kube/lease"
)

// leaseTries bounds how often a run that lost the Lease waits for it again.
const leaseTries = 3

// alone calls work while no other run applies channels to the cluster. A run that loses the Lease, because the API server
// was away or another run took it, waits for it again, and work starts over. tell may be nil; it is told who is waited for.
func (c *Cluster) alone(ctx context.Context, tell func(string), work func(context.Context) error) error {
	o := c.lease
	o.Namespace, o.Name, o.Identity, o.Log = DefaultNamespace, addon.Lease, lease.Identity(), c.log
	if tell != nil {
		o.Waiting = func(holder string) {
			tell(fmt.Sprintf("another run applies add-ons to this cluster: waiting for it to end (its lease %s in %s names %s)", addon.Lease, DefaultNamespace, holder))
		}
	}
	for try := 1; ; try++ {
		err := lease.Run(ctx, c.config, o, work)
		switch {
		case !errors.Is(err, lease.ErrLost) || ctx.Err() != nil:
			return err
		case try == leaseTries:
			return fmt.Errorf("%w; run the command again", err)
		case tell != nil:
			tell(fmt.Sprintf("the run stops and starts over: %v", err))
		}
	}
}
