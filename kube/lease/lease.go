// Package lease lets one process at a time work on a cluster. A Lease object in the cluster names the process that may
// work; the others wait.
//
// The leader election of client-go takes, renews and releases the Lease. This package adds what that leaves to its caller: work
// stops before another process may begin, the Lease is released only after work has ended, and the Lease of a dead process on
// this machine is acquired at once.
package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/sealift/sealift/kube"
)

// ErrLost ends work whose Lease was taken by another process, or could not be renewed in time.
var ErrLost = errors.New("the lease was lost")

// Options name a Lease and configure how it is held. Only Namespace and Name are required.
type Options struct {
	Namespace string
	Name      string
	// Duration is how long others wait for a silent holder: whole seconds, because the Lease stores seconds. Default 15 s.
	Duration time.Duration
	// RenewDeadline is how long work continues after the last successful renewal. It must be shorter than Duration; the difference
	// is the time in which work has to stop. Default two thirds of Duration.
	RenewDeadline time.Duration
	// RetryPeriod is the pause between two renewals, and about that between two reads of a Lease that another process holds.
	// Default 1 s.
	RetryPeriod time.Duration

	// Patience bounds the wait for another process. Default 30 minutes.
	Patience time.Duration
	// Outage bounds how long the API server may be unreachable while we wait. Default 30 s.
	Outage time.Duration
	// Tries bounds how often work is started when the Lease is lost. Default 3.
	Tries int
	// Lost is called with the reason before work restarts.
	Lost func(error)
	// Waiting is called with the holder once, when another process holds the Lease.
	Waiting func(holder string)
	// Log gets a line for each failed renewal. nil logs nothing.
	Log *slog.Logger
	// Identity names this process in the Lease. Default: a name that lets others on this machine detect when the process has died.
	Identity string
}

// requests is how many requests in a row may hang before the renew deadline.
const requests = 4

func (o Options) withDefaults() (Options, error) {
	o.Identity = cmp.Or(o.Identity, identity()) // the same in each try: a Lease that we lost is ours to reacquire
	o.Duration = cmp.Or(o.Duration, 15*time.Second)
	o.RenewDeadline = cmp.Or(o.RenewDeadline, o.Duration*2/3)
	o.RetryPeriod = cmp.Or(o.RetryPeriod, time.Second)
	o.Patience = cmp.Or(o.Patience, 30*time.Minute)
	o.Outage = cmp.Or(o.Outage, 30*time.Second)
	o.Tries = cmp.Or(o.Tries, 3)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Duration%time.Second != 0 {
		return o, fmt.Errorf("lease %s: its duration %s has to be whole seconds", o, o.Duration)
	}
	return o, nil
}

// String returns namespace/name.
func (o Options) String() string { return o.Namespace + "/" + o.Name }

// Run waits until no other process holds the Lease, and then calls work. The context of work ends, with a cause that is
// ErrLost, when the Lease is lost: work has to stop then, because another process begins soon. Run waits for the Lease again
// then, and work starts over. Run returns the error of work, and releases the Lease.
func Run(ctx context.Context, cluster *kube.Cluster, o Options, work func(context.Context) error) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	client, err := coordinationv1client.NewForConfigAndClient(cluster.Config())
	if err != nil {
		return fmt.Errorf("lease %s: %w", o, err)
	}
	for try := 1; ; try++ {
		err := hold(ctx, client, o, work)
		switch {
		case !errors.Is(err, ErrLost) || ctx.Err() != nil:
			return err
		case try == o.Tries:
			return fmt.Errorf("%w; run the command again", err)
		case o.Lost != nil:
			o.Lost(err)
		}
	}
}

// hold runs work once.
func hold(ctx context.Context, client coordinationv1client.LeasesGetter, o Options, work func(context.Context) error) error {
	working, end := context.WithCancelCause(ctx)
	defer end(nil)
	g := newGuard(o, end, lockOf(client, o))
	taken := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: g, LeaseDuration: o.Duration, RenewDeadline: o.RenewDeadline, RetryPeriod: o.RetryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { close(taken) }, OnStoppedLeading: func() {}},
	})
	if err != nil {
		return fmt.Errorf("lease %s: %w", o, err)
	}
	defer g.elect(ctx, elector)()

	patience := time.NewTimer(o.Patience)
	defer patience.Stop()
	select {
	case <-taken:
	case <-working.Done():
		return context.Cause(working)
	case <-patience.C:
		return fmt.Errorf("%s has held the lease %s for %s: check what it does, or delete the lease", g.holderName(), o, o.Patience)
	}
	err = work(working)
	if lost := context.Cause(working); err != nil && errors.Is(lost, ErrLost) && !errors.Is(err, ErrLost) {
		err = fmt.Errorf("%w; %w", lost, err)
	}
	return err
}

func lockOf(client coordinationv1client.LeasesGetter, o Options) *resourcelock.LeaseLock {
	return &resourcelock.LeaseLock{
		Client:     client,
		LeaseMeta:  metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name},
		LockConfig: resourcelock.ResourceLockConfig{Identity: o.Identity},
	}
}

// elect runs the elector until the returned function is called, which releases the Lease. The elector outlives ctx: while
// work is still stopping, nobody else may begin.
func (g *guard) elect(ctx context.Context, elector *leaderelection.LeaderElector) (release func()) {
	// The elector's own log repeats guard's messages.
	ctx, stop := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), klog.Logger{}))
	over := make(chan struct{})
	go func() {
		defer close(over)
		elector.Run(ctx)
	}()
	return func() {
		close(g.ended)
		stop()
		<-over
		g.deadline.Stop()
	}
}
