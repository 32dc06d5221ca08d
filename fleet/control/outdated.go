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

// outdated has the versions that objects have at least, as the hub's writes tell, those that were refused as well. A controller that reads
// an older version from the cache waits for the next one: what it would write, the API server would refuse. The zero value is empty.
type outdated struct {
	mu       sync.Mutex
	versions map[outdatedKey]outdatedVersion
	late     time.Duration // how long the last one that the cache has was waited for
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
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.versions == nil {
		v.versions = make(map[outdatedKey]outdatedVersion)
	}
	key := outdatedKeyOf(o)
	newer, err := resourceversion.CompareResourceVersion(o.GetResourceVersion(), v.versions[key].version)
	if err != nil || newer > 0 || newer == 0 && replaced {
		v.versions[key] = outdatedVersion{o.GetResourceVersion(), replaced, time.Now()}
	}
}

// behind says whether an object is older than what is known of it.
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
	if err == nil && (newer < 0 || newer == 0 && last.replaced) && late < outdatedTime {
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
