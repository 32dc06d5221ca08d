package control

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sealift/sealift/fleet/ocm"
)

// answerTime is how long the hub waits for a cluster's answer before it writes the status. The cache's lag is added: for so long an
// answer is on its way.
const answerTime = 5 * time.Second

// report writes the status of an add-on. If only the reason for waiting changed, it writes that only if the cluster does not
// answer soon: it returns how long to wait. So a rollout writes the status of a cluster twice: as it begins there, and as it ends. While
// many clusters get a configuration, statuses wait: works are written first.
func (r *clusterAddOns) report(ctx context.Context, p place) (wait time.Duration, err error) {
	key := client.ObjectKeyFromObject(p.addOn)
	if r.pending.holds(key) {
		return pendingStuck, nil
	}
	minor, err := onlyMessage(p.before, p.addOn)
	if err != nil {
		return 0, err
	}
	if minor {
		if wait := answerTime + r.outdated.lag() - r.unreported.since(key, r.now()); wait > 0 {
			return wait, nil
		}
	}
	r.unreported.forget(key)
	return 0, client.IgnoreNotFound(r.patchStatus(ctx, p.before, p.addOn))
}

// pendingWorks has the add-ons that were given a configuration and whose works are not written yet, and those whose statuses wait for that.
// The zero value is idle.
type pendingWorks struct {
	mu            sync.Mutex
	assigners     int // decisions that are being written
	since, last   time.Time
	left, waiting map[types.NamespacedName]struct{}
	again         func(reconcile.Request)
}

// pendingLong is how long works must be pending before statuses wait for them, and pendingStuck how long they may then make no progress.
const pendingLong, pendingStuck = time.Second, 30 * time.Second

// begin is called before a decision is written, and end afterwards.
func (g *pendingWorks) begin() { g.change(func() { g.assigners++ }) }

func (g *pendingWorks) end() { g.change(func() { g.assigners-- }) }

// add records that an add-on is about to get a configuration: its works may be written before the hub sees that. done records that
// they are written.
func (g *pendingWorks) add(addOn types.NamespacedName) {
	g.change(func() { g.left[addOn], g.last = struct{}{}, time.Now() })
}

func (g *pendingWorks) done(addOn types.NamespacedName) {
	g.change(func() {
		if _, found := g.left[addOn]; found {
			delete(g.left, addOn)
			g.last = time.Now()
		}
	})
}

// change makes a step. After the last one, all waiting add-ons are reconciled again.
func (g *pendingWorks) change(step func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.idle() {
		g.since = time.Now()
		g.last = g.since
	}
	if g.left == nil {
		g.left, g.waiting = make(map[types.NamespacedName]struct{}), make(map[types.NamespacedName]struct{})
	}
	step()
	if g.idle() {
		for addOn := range g.waiting {
			g.again(reconcile.Request{NamespacedName: addOn})
		}
		clear(g.waiting)
	}
}

func (g *pendingWorks) idle() bool { return g.assigners == 0 && len(g.left) == 0 }

// calls sets the function to call with each add-on whose status no longer waits.
func (g *pendingWorks) calls(again func(reconcile.Request)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.again = again
}

// holds reports whether the status of an add-on has to wait. If so, the add-on is called as soon as there is nothing to wait for.
func (g *pendingWorks) holds(addOn types.NamespacedName) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.last) >= pendingStuck {
		clear(g.left) // another hub has these clusters now
		return false
	}
	if g.idle() || time.Since(g.since) < pendingLong {
		return false
	}
	g.waiting[addOn] = struct{}{}
	return true
}

// onlyMessage reports whether nothing changed in an add-on but the message of condition Progressing.
func onlyMessage(before, after *ocm.ManagedClusterAddOn) (bool, error) {
	was, is := meta.FindStatusCondition(before.Status.Conditions, "Progressing"), meta.FindStatusCondition(after.Status.Conditions, "Progressing")
	if was == nil || is == nil || was.Message == is.Message {
		return false, nil
	}
	same := copyOf(after)
	meta.FindStatusCondition(same.Status.Conditions, "Progressing").Message = was.Message
	changed, err := differ(before, same)
	return !changed, err
}

// unreported has the add-ons whose message is not written yet, and since when. It buys two of the four writes of a cluster's status in
// a rollout ("-only fleet" of internal/testing/bench).
type unreported struct {
	memory[types.NamespacedName, time.Time]
}

// since returns for how long the message of an add-on has not been written.
func (u *unreported) since(addOn types.NamespacedName, now time.Time) (d time.Duration) {
	u.change(addOn, func(begin time.Time, found bool) (time.Time, bool) {
		if !found {
			begin = now
		}
		d = now.Sub(begin)
		return begin, true
	})
	return d
}
