package control

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sealift/sealift/fleet/ocm"
)

// TestReplacedVersionsAreStale follows an add-on while the cache is behind, and after it has caught up. A work has the same name.
func TestReplacedVersionsAreStale(t *testing.T) {
	var c controllers
	at := func(version string) *ocm.ManagedClusterAddOn {
		return &ocm.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "rome", Name: "hello", ResourceVersion: version}}
	}
	conflict := apierrors.NewConflict(schema.GroupResource{}, "hello", nil)
	for _, step := range []struct {
		what          string
		before, after string
		err           error
		stale, fresh  string
	}{
		{"nothing was written", "7", "7", nil, "", "7"},
		{"a write failed", "7", "7", errors.New("no connection"), "", "7"},
		{"the hub wrote", "7", "8", nil, "7", ""},
		{"the hub wrote again", "8", "9", nil, "7", ""},
		{"the cache has what the hub wrote first", "8", "8", nil, "8", ""},
		{"an older write ends late", "6", "7", nil, "8", ""},
		{"somebody else wrote", "9", "9", conflict, "9", "10"},
		{"the cache has it", "10", "10", nil, "", "10"},
		{"the hub wrote though a cluster had answered", "10", "13", nil, "12", ""},
		{"the cache has what the hub wrote", "13", "13", nil, "", "13"},
	} {
		if err := c.written(at(step.before), at(step.after), step.err); !errors.Is(err, step.err) {
			t.Errorf("%s: %v became %v", step.what, step.err, err)
		}
		if step.stale != "" && !c.outdated.behind(at(step.stale)) {
			t.Errorf("%s: version %s counts as the last", step.what, step.stale)
		}
		if step.fresh != "" && c.outdated.behind(at(step.fresh)) {
			t.Errorf("%s: version %s counts as replaced", step.what, step.fresh)
		}
	}
	if len(c.outdated.versions.values) > 0 {
		t.Errorf("%v is kept", c.outdated.versions.values)
	}
	_ = c.written(at("11"), at("12"), nil)
	if c.outdated.behind(&ocm.ManifestWork{ObjectMeta: at("11").ObjectMeta}) {
		t.Error("a work counts as replaced with the add-on of its name")
	}
	for key, v := range c.outdated.versions.values {
		c.outdated.versions.put(key, outdatedVersion{v.version, v.replaced, v.noted.Add(-outdatedTime)})
	}
	if c.outdated.behind(at("11")) {
		t.Error("the cache is waited for without an end")
	}
	_ = c.written(at("11"), at("12"), nil)
	if c.outdated.gone(at("")); c.outdated.behind(at("11")) {
		t.Error("an add-on that went and came counts as replaced")
	}
}
