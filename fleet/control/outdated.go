package control

import (
	"errors"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errBehind says that the cache does not have an object yet as the hub wrote it.
var errBehind = errors.New("the cache is behind what was written")

// outdated has the versions of objects that were replaced, by the hub or, as a refused write tells, by somebody else. A controller that
// reads such a version from the cache waits for the next one: what it would write, the API server would refuse. The zero value is empty.
type outdated struct {
	mu       sync.Mutex
	versions map[outdatedKey]outdatedVersion
	late     time.Duration // how long the last one that the cache has was waited for
}

type outdatedVersion struct {
	version string
	noted   time.Time
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

// replaced notes that the version of an object is not the last one.
func (v *outdated) replaced(o client.Object) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.versions == nil {
		v.versions = make(map[outdatedKey]outdatedVersion)
	}
	key := outdatedKeyOf(o)
	if newer, err := resourceversion.CompareResourceVersion(o.GetResourceVersion(), v.versions[key].version); err != nil || newer > 0 {
		v.versions[key] = outdatedVersion{o.GetResourceVersion(), time.Now()}
	}
}

// behind says whether an object is a version that was replaced.
func (v *outdated) behind(o client.Object) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := outdatedKeyOf(o)
	last, found := v.versions[key]
	if !found {
		return false
	}
	newer, err := resourceversion.CompareResourceVersion(o.GetResourceVersion(), last.version)
	late := time.Since(last.noted)
	if err == nil && newer <= 0 && late < outdatedTime {
		return true
	}
	v.late = min(late, outdatedTime)
	delete(v.versions, key)
	return false
}

// lag returns by how much the cache was behind, the last time that this was seen.
func (v *outdated) lag() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.late
}

// gone forgets an object.
func (v *outdated) gone(o client.Object) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.versions, outdatedKeyOf(o))
}
