package control

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/ocm"
)

// answerTime is how long the hub waits for a cluster's answer before it writes what it waits for.
const answerTime = 5 * time.Second

// tell writes the status of an add-on. What it waits for, if nothing else changed, it writes only if the cluster does not answer
// soon: it returns how long to wait. So a rollout writes the status of a cluster twice: as it begins there, and as it ends.
// While many clusters are given a configuration, statuses wait: who reads them for the next decisions is busy giving.
func (r *clusterAddOns) tell(ctx context.Context, p place) (wait time.Duration, err error) {
	if wait := r.giving.wait(); wait > 0 {
		return wait, nil
	}
	key := client.ObjectKeyFromObject(p.addOn)
	minor, err := onlyMessage(p.before, p.addOn)
	if err != nil {
		return 0, err
	}
	if minor {
		if wait := answerTime - r.untold.since(key, r.now()); wait > 0 {
			return wait, nil
		}
	}
	r.untold.forget(key)
	return 0, client.IgnoreNotFound(r.patchStatus(ctx, p.before, p.addOn))
}

// giving knows since when configurations are given to clusters. The zero value is idle.
type giving struct {
	mu    sync.Mutex
	since time.Time
}

// givingLong is how long that takes at least before statuses wait for it.
const givingLong = time.Second

func (g *giving) begin() { g.set(time.Now()) }

func (g *giving) end() { g.set(time.Time{}) }

func (g *giving) set(since time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.since = since
}

// wait returns how long a status waits, as long as the giving took so far, so that none comes back often. Zero is not at all.
func (g *giving) wait() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if took := time.Since(g.since); !g.since.IsZero() && took > givingLong {
		return took
	}
	return 0
}

// onlyMessage says whether nothing changed in an add-on but the message of condition Progressing.
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

// untold has the add-ons whose message is not written yet.
type untold struct {
	mu    sync.Mutex
	begin map[types.NamespacedName]time.Time
}

// since returns for how long the message of an add-on has not been written.
func (u *untold) since(addOn types.NamespacedName, now time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	begin, found := u.begin[addOn]
	if !found {
		if u.begin == nil {
			u.begin = make(map[types.NamespacedName]time.Time)
		}
		begin = now
		u.begin[addOn] = now
	}
	return now.Sub(begin)
}

func (u *untold) forget(addOn types.NamespacedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.begin, addOn)
}
