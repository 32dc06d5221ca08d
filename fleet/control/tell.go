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
func (r *clusterAddOns) tell(ctx context.Context, p place) (wait time.Duration, err error) {
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
