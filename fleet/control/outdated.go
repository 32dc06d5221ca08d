package control

import (
	"errors"
	"reflect"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errBehind means that the cache does not have the hub's last write of an object yet.
var errBehind = errors.New("the cache has not seen the last write yet")

// outdated has the versions that objects have at least, as the hub's writes show, including those that were refused. A controller that
// reads an older version from the cache waits for the next one: the API server would refuse its write. That buys more than a quarter of a
// rollout's writes of statuses ("-only fleet" of internal/testing/bench, 2,000 clusters). The zero value is empty.
type outdated struct {
	versions memory[outdatedKey, outdatedVersion]
	late     atomic.Int64 // for how long the cache was behind, the last time that this was seen, in nanoseconds
}

type outdatedVersion struct {
	version  string
	replaced bool // the object has a later version
	noted    time.Time
}

// outdatedTime is how long a controller waits for a cache at most: a write may be refused for another reason. It is called when the cache
// has the next version.
const outdatedTime = time.Minute

type outdatedKey struct {
	kind reflect.Type
	name types.NamespacedName
}

func outdatedKeyOf(o client.Object) outdatedKey {
	return outdatedKey{reflect.TypeOf(o), client.ObjectKeyFromObject(o)}
}

// written notes the version that an object got.
func (v *outdated) written(o client.Object) { v.note(o, false) }

// replaced notes that the version of an object is not the last one.
func (v *outdated) replaced(o client.Object) { v.note(o, true) }

func (v *outdated) note(o client.Object, replaced bool) {
	v.versions.change(outdatedKeyOf(o), func(last outdatedVersion, found bool) (outdatedVersion, bool) {
		newer, err := resourceversion.CompareResourceVersion(o.GetResourceVersion(), last.version)
		if err != nil || newer > 0 || newer == 0 && replaced {
			return outdatedVersion{o.GetResourceVersion(), replaced, time.Now()}, true
		}
		return last, found
	})
}

// behind reports whether an object is older than its last known version.
func (v *outdated) behind(o client.Object) (behind bool) {
	v.versions.change(outdatedKeyOf(o), func(last outdatedVersion, found bool) (outdatedVersion, bool) {
		if !found {
			return last, false
		}
		newer, err := resourceversion.CompareResourceVersion(o.GetResourceVersion(), last.version)
		late := time.Since(last.noted)
		if behind = err == nil && (newer < 0 || newer == 0 && last.replaced) && late < outdatedTime; !behind {
			v.late.Store(int64(min(late, outdatedTime)))
		}
		return last, behind
	})
	return behind
}

// lag returns for how long the cache was behind, the last time that this was seen.
func (v *outdated) lag() time.Duration { return time.Duration(v.late.Load()) }

// gone forgets an object.
func (v *outdated) gone(o client.Object) { v.versions.forget(outdatedKeyOf(o)) }
