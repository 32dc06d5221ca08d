package channel

import (
	"context"
	"fmt"

	"github.com/sealift/sealift/addon"
	"github.com/sealift/sealift/kube/lease"
)

// withLease calls work while no other run applies add-ons to the cluster. tell may be nil. It gets the holder of the Lease that is waited for, and a line when
// work starts over because the Lease was lost.
func (c *Cluster) withLease(ctx context.Context, tell func(string), work func(context.Context) error) error {
	o := c.lease
	o.Namespace, o.Name, o.Log = addon.Namespace, addon.Lease, c.log
	if tell != nil {
		o.Waiting = func(holder string) {
			tell(addon.Waiting(holder))
		}
		o.Lost = func(err error) { tell(fmt.Sprintf("the run stops and starts over: %v", err)) }
	}
	return lease.Run(ctx, c.engine.Cluster, o, work)
}
