package hub

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// shardCount is how many shards a fleet has. All hubs of a fleet have to agree, so it is not an option.
const shardCount = 4

// shardOf returns the shard of a cluster.
func shardOf(cluster string) int {
	sum := sha256.Sum256([]byte(cluster)) // names are similar, and so are simple hashes of them
	return int(sum[0]) % shardCount
}

// Why the work of a shard ends.
var (
	errYielded = errors.New("this shard of the fleet was assigned to another hub")
	errLost    = errors.New("the Lease of this shard of the fleet was lost")
)

// shards are the parts of the fleet that this hub works on. Each shard has a Lease, and only its holder works on the clusters of
// the shard. The hubs that are alive share the shards evenly.
//
// A hub is alive while it renews a Lease: that of a shard, or without a shard, its own. By these, each hub knows the others, and
// which shards are to be its own. It gives up the others and acquires its own when they are free.
type shards struct {
	leases coordinationv1client.LeaseInterface
	me     string
	log    *slog.Logger
	// duration is how long others wait for a hub that is silent, deadline how long a hub works without a renewal, and period the
	// pause between two checks.
	duration, deadline, period time.Duration
	// patience is how long another hub waits for unfinished work in a shard that it should get.
	patience time.Duration

	seen map[string]sighting // of Leases, by name

	mu     sync.Mutex
	held   [shardCount]*shard
	gained []func(shard int)
	failed chan error
}

// sighting is when a Lease changed last, by the clock of this process.
type sighting struct {
	version string
	at      time.Time
}

// shard is a shard that this hub holds, or whose work has not ended yet.
type shard struct {
	context.Context

	end      context.CancelCauseFunc
	expires  *time.Timer
	overtime *time.Timer
	// under the mutex of shards
	working int
	yielded time.Time // zero while it releases work
}

func newShards(leases coordinationv1client.LeaseInterface, me string, duration time.Duration, log *slog.Logger) *shards {
	return &shards{
		leases: leases, me: me, log: log, duration: duration, deadline: duration * 2 / 3, period: duration * 4 / 15, patience: 5 * time.Minute,
		seen: make(map[string]sighting), failed: make(chan error, 1),
	}
}

// Shard lets a controller work only on the clusters of this hub's shards. The controller must not need the Lease of the hub that
// decides. of names the cluster of a request, "" for none, and all returns the requests of all clusters. The source enqueues the
// objects of a shard that this hub gains.
func (h *Hub) Shard(r reconcile.Reconciler, of func(context.Context, reconcile.Request) string, all func(context.Context) []reconcile.Request) (reconcile.Reconciler, source.Source) {
	sharded := reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		cluster := of(ctx, req)
		if cluster == "" {
			return reconcile.Result{}, nil
		}
		working, done := h.shards.begin(ctx, shardOf(cluster))
		if working == nil {
			return reconcile.Result{}, nil // the hub that has the shard also gets the event
		}
		defer done()
		result, err := r.Reconcile(working, req)
		if cause := context.Cause(working); errors.Is(cause, errYielded) || errors.Is(cause, errLost) {
			return reconcile.Result{}, nil
		}
		return result, err
	})
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return sharded, source.Func(func(ctx context.Context, q queue) error {
		h.shards.onGain(func(n int) {
			for _, req := range all(ctx) {
				if cluster := of(ctx, req); cluster != "" && shardOf(cluster) == n {
					q.Add(req)
				}
			}
		})
		return nil
	})
}

// Holds reports whether this hub works on a cluster.
func (h *Hub) Holds(cluster string) bool {
	working, done := h.shards.begin(context.Background(), shardOf(cluster))
	if working == nil {
		return false
	}
	done()
	return true
}

// onGain calls a function for each shard that this hub holds, and for each that it gains.
func (s *shards) onGain(f func(shard int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gained = append(s.gained, f)
	for n, held := range s.held {
		if held != nil && held.Err() == nil {
			go f(n)
		}
	}
}

// begin returns the context for one reconcile in a shard, or nil if this hub does not hold the shard. Call done after the work.
func (s *shards) begin(ctx context.Context, n int) (working context.Context, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.held[n]
	if held == nil || held.Err() != nil || !held.yielded.IsZero() {
		return nil, nil
	}
	held.working++
	working, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(held, func() { cancel(context.Cause(held)) })
	return working, func() {
		stop()
		cancel(nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		held.working--
	}
}

// hold begins to work on a shard. The Lease was renewed at a time.
func (s *shards) hold(n int, renewed time.Time) {
	held := new(shard)
	held.Context, held.end = context.WithCancelCause(context.Background())
	held.expires = time.AfterFunc(time.Until(renewed.Add(s.deadline)), func() { held.end(errLost) })
	// others may begin then
	held.overtime = time.AfterFunc(time.Until(renewed.Add(s.duration)), func() { s.overdue(held) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[n] = held
	for _, f := range s.gained {
		go f(n)
	}
}

// renewed lets the work on a shard continue.
func (s *shards) renewed(held *shard, at time.Time) {
	if held.Err() == nil {
		held.expires.Reset(time.Until(at.Add(s.deadline)))
	}
	held.overtime.Reset(time.Until(at.Add(s.duration)))
}

// overdue ends the hub if a shard is lost and some of its work has not ended in time.
func (s *shards) overdue(held *shard) {
	if !s.idle(held) {
		select {
		case s.failed <- errors.Join(errLost, errors.New("its work does not end, although another hub may start it")):
		default:
		}
	}
}

func (s *shards) idle(held *shard) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return held.working == 0
}

// yield gives up an unwanted shard, step by step: it accepts no more work, and the work in progress gets some time to end.
func (s *shards) yield(held *shard, wanted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case held.yielded.IsZero() && !wanted:
		held.yielded = time.Now()
	case !held.yielded.IsZero() && time.Since(held.yielded) > s.patience:
		held.end(errYielded)
	}
}

// ended reports whether a shard accepts no work and has none in progress.
func (s *shards) ended(held *shard) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return held.working == 0 && (held.Err() != nil || !held.yielded.IsZero())
}

// drop forgets a shard whose work has ended.
func (s *shards) drop(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held := s.held[n]; held != nil {
		held.end(errYielded)
		held.expires.Stop()
		held.overtime.Stop()
		s.held[n] = nil
	}
}

func (s *shards) holds(n int) *shard {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[n]
}

// any reports whether this hub holds a shard.
func (s *shards) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.held[:], func(held *shard) bool { return held != nil })
}
