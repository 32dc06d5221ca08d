package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/sealift/sealift/kube"
)

// guard stands between the elector and the Lease. The elector reads and writes the Lease through it.
//
// It ends the work of a holder by its own clock, because the elector tries to release a lost Lease first, and only then reports
// the loss. The clock starts before a renewal is sent. Others start theirs after they have seen the renewal, so their Duration
// always ends after our RenewDeadline, however long an answer takes.
type guard struct {
	resourcelock.Interface
	o     Options
	end   context.CancelCauseFunc // ends the wait, or the work
	ended chan struct{}           // closed when the work has ended

	mu       sync.Mutex // guards what follows
	holder   string     // as the Lease was last read or written
	held     bool       // by us, now or before
	reported bool       // that we wait
	deadline *time.Timer
	failing  time.Time // since when requests fail
	last     error     // of the last request that failed
}

func newGuard(o Options, end context.CancelCauseFunc, lock resourcelock.Interface) *guard {
	g := &guard{Interface: lock, o: o, end: end, ended: make(chan struct{})}
	g.deadline = time.AfterFunc(time.Hour, g.expire)
	g.deadline.Stop()
	return g
}

// Get reads the Lease. A dead holder on this machine is left out, so that the elector takes the Lease.
func (g *guard) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	bounded, cancel := g.bound(ctx)
	defer cancel()
	record, raw, err := g.Interface.Get(bounded)
	if apierrors.IsNotFound(err) {
		g.saw("")
		return record, raw, err
	}
	if err != nil {
		g.failed(ctx, "look at", err)
		return record, raw, err
	}
	g.saw(record.HolderIdentity)
	if gone(record.HolderIdentity) {
		record.HolderIdentity = ""
	}
	return record, raw, nil
}

// Create makes the Lease in our name.
func (g *guard) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return g.write(ctx, record, g.Interface.Create)
}

// Update renews the Lease, acquires it, or releases it by a record without a holder. It releases only our own, and only after
// work has ended.
func (g *guard) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		select {
		case <-g.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
		if holder := g.holderName(); holder != g.Identity() {
			return fmt.Errorf("not released: the holder is %q", holder)
		}
	}
	return g.write(ctx, record, g.Interface.Update)
}

func (g *guard) write(ctx context.Context, record resourcelock.LeaderElectionRecord, send func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	bounded, cancel := g.bound(ctx)
	defer cancel()
	start := time.Now()
	if err := send(bounded, record); err != nil {
		g.failed(ctx, "take", err)
		return err
	}
	g.saw(record.HolderIdentity)
	if record.HolderIdentity == g.Identity() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.held = true
		g.deadline.Reset(time.Until(start.Add(g.o.RenewDeadline)))
	}
	return nil
}

// bound limits one request to its share of the renew deadline.
func (g *guard) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, g.o.RenewDeadline/requests)
}

// saw notes an answer of the server, and who holds the Lease.
func (g *guard) saw(holder string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holder, g.failing = holder, time.Time{}
	switch {
	case holder == "" || holder == g.Identity():
	case g.held:
		g.end(fmt.Errorf("%w: %s has taken %s over", ErrLost, holder, g.o))
	case !g.reported && !gone(holder) && g.o.Waiting != nil:
		g.reported = true
		g.o.Waiting(holder)
	}
}

// failed notes that a request failed. While we wait, a permanent error ends the wait, and so does a server that stays
// unreachable.
func (g *guard) failed(ctx context.Context, doing string, err error) {
	if ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = err
	if g.failing.IsZero() {
		g.failing = time.Now()
	}
	switch {
	case g.held:
		g.o.Log.WarnContext(ctx, "the lease was not renewed", "lease", g.o.String(), "error", err)
	case !kube.Transient(err):
		g.end(fmt.Errorf("%s the lease %s: %w", doing, g.o, err))
	case time.Since(g.failing) > g.o.Outage:
		g.end(fmt.Errorf("%s the lease %s: gave up after %s: %w", doing, g.o, time.Since(g.failing).Round(time.Second), err))
	}
}

// expire ends work that could not renew the Lease in time.
func (g *guard) expire() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last == nil {
		g.last = errors.New("this process was stopped for too long")
	}
	g.end(fmt.Errorf("%w: %s could not be renewed for %s: %w", ErrLost, g.o, g.o.RenewDeadline, g.last))
}

func (g *guard) holderName() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.holder
}
