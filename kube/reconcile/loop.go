// Package reconcile runs a function for each object that changes, and retries until it succeeds. Watching and queueing are
// client-go's.
package reconcile

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"

	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/lease"
)

// Func reconciles what key names. It is called again after a pause, if it returns one; with growing pauses after an error;
// and when the object changes. The object may be gone.
type Func func(ctx context.Context, key kube.Ref) (again time.Duration, err error)

// Loop calls Reconcile for its keys. One key is never reconciled twice at the same time.
type Loop struct {
	Reconcile Func
	// Keys are reconciled from the start. The loop is ready when the last try of each of them succeeded.
	Keys []kube.Ref
	// Watch lists kinds, with a namespace or without. Each of their objects is a key. A kind may be installed later.
	Watch []kube.Ref
	// Cluster is the cluster of Watch and Lease. A loop without both needs none.
	Cluster *kube.Cluster
	// Lease lets one of several loops work, and the others wait for as long as it takes. Nil lets each work.
	Lease *lease.Options
	// Workers is how many keys are reconciled at once. Default 1.
	Workers int
	// FirstRetry and LongestRetry bound the pauses after errors, which double. Default 1 s and 5 minutes.
	FirstRetry, LongestRetry time.Duration
	// Failed is called with each error of a key, and with those of a watch that client-go reports. again is the pause that Reconcile
	// returned. Nil is silence.
	Failed func(ctx context.Context, key kube.Ref, again time.Duration, err error)
	// Listen is the address of /readyz. If empty, it is not served.
	Listen string
	// Listening is called with the URL of /readyz once it is served.
	Listening func(url string)
}

// Run works until ctx ends, and then returns nil.
func (l Loop) Run(ctx context.Context) error {
	l.Workers = cmp.Or(l.Workers, 1)
	l.FirstRetry = cmp.Or(l.FirstRetry, time.Second)
	l.LongestRetry = cmp.Or(l.LongestRetry, 5*time.Minute)
	ready := newReadiness(l.Keys)
	group, working := errgroup.WithContext(ctx)
	if l.Listen != "" {
		serve, err := ready.listen(working, l)
		if err != nil {
			return err
		}
		group.Go(serve)
	}
	group.Go(func() error { return l.lead(working, ready) })
	if err := group.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// lead works while the loop has its lease, and begins again when it has lost it.
func (l Loop) lead(ctx context.Context, ready *readiness) error {
	work := func(ctx context.Context) error { return l.work(ctx, ready) }
	if l.Lease == nil {
		return work(ctx)
	}
	o := *l.Lease
	o.Tries = math.MaxInt
	o.Patience, o.Outage = cmp.Or(o.Patience, math.MaxInt64), cmp.Or(o.Outage, math.MaxInt64)
	if l.Failed != nil {
		o.Lost = func(err error) { l.Failed(ctx, kube.Ref{Kind: "Lease", Namespace: o.Namespace, Name: o.Name}, 0, err) }
	}
	return lease.Run(ctx, l.Cluster, o, work)
}

// queue holds the keys that wait to be reconciled, each once.
type queue = workqueue.TypedRateLimitingInterface[kube.Ref]

// work watches and reconciles until ctx ends.
func (l Loop) work(ctx context.Context, ready *readiness) error {
	q := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[kube.Ref](l.FirstRetry, l.LongestRetry))
	defer context.AfterFunc(ctx, q.ShutDown)()
	for _, key := range l.Keys {
		q.Add(key)
	}
	var group errgroup.Group
	for _, kind := range l.Watch {
		group.Go(func() error { return l.watch(ctx, kind, q) })
	}
	for range l.Workers {
		group.Go(func() error {
			for l.next(ctx, q, ready) {
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// next reconciles the next key. It returns false when the queue is shut down.
func (l Loop) next(ctx context.Context, q queue, ready *readiness) bool {
	key, over := q.Get()
	if over {
		return false
	}
	defer q.Done(key)
	again, err := l.Reconcile(ctx, key)
	if ctx.Err() != nil {
		return true // cut short: this says nothing about the key
	}
	ready.set(key, err == nil)
	switch {
	case again > 0:
		q.Forget(key)
		q.AddAfter(key, again)
	case err != nil:
		q.AddRateLimited(key)
	default:
		q.Forget(key)
	}
	if err != nil {
		l.failed(ctx, key, again, err)
	}
	return true
}

func (l Loop) failed(ctx context.Context, key kube.Ref, again time.Duration, err error) {
	if l.Failed != nil && !errors.Is(err, context.Canceled) {
		l.Failed(ctx, key, again, err)
	}
}
