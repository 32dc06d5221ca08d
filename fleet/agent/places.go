package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/kube"
)

// placesAnnotation is on the AppliedManifestWork of a work.
const placesAnnotation = "fleet.sealift.dev/places"

// places records which sets a work has on the cluster. Each strategy has its own set, so an object moves to another when its
// strategy changes; without that record, the first set would delete the object.
type places struct {
	Sets    map[string]string `json:"sets"`    // the field manager of each
	Objects string            `json:"objects"` // a digest over each object and its set; "" while objects move
	// Complete are manifests that are no longer applied.
	Complete []ocm.ResourceIdentifier `json:"complete,omitempty"`

	home map[kube.Ref]string // the set of each object without its version; "" for one that is only read
}

// placesOf returns where the objects of a work should be. While a manifest cannot be read, all stay complete that were.
func placesOf(work *ocm.ManifestWork, was places, manifests []manifest, by map[strategy][]int) places {
	p := places{Sets: map[string]string{}, home: map[kube.Ref]string{}}
	put := func(m manifest, set string) {
		for _, ref := range m.refs() {
			p.home[ref] = set
		}
	}
	p.Complete = completed(manifests)
	for _, m := range manifests {
		if m.err == nil {
			put(m, "")
			continue
		}
		for _, id := range was.Complete {
			if !slices.Contains(p.Complete, id) {
				p.Complete = append(p.Complete, id)
			}
		}
	}
	for how, members := range by {
		name := how.set(work.Name).Name
		p.Sets[name] = how.manager
		for _, i := range members {
			put(manifests[i], name)
		}
	}
	lines := make([]string, 0, len(p.home))
	for ref, set := range p.home {
		lines = append(lines, fmt.Sprintf("%+v %s", ref, set))
	}
	slices.Sort(lines)
	sum := sha256.New()
	_ = json.NewEncoder(sum).Encode(lines)
	p.Objects = hex.EncodeToString(sum.Sum(nil))
	return p
}

// refs are the object's name on the cluster without its version. A namespaced object that names no namespace goes to the default one.
func (m *manifest) refs() []kube.Ref {
	ref := kube.RefOf(m.object)
	ref.Version = ""
	if ref.Namespace != "" {
		return []kube.Ref{ref}
	}
	there := ref
	there.Namespace = metav1.NamespaceDefault
	return []kube.Ref{ref, there}
}

// names reports whether a manifest is of the object that an identifier names.
func (m *manifest) names(id ocm.ResourceIdentifier) bool {
	return m.id.Group == id.Group && m.id.Resource == id.Resource && slices.ContainsFunc(m.refs(), func(ref kube.Ref) bool {
		return ref.Namespace == id.Namespace && ref.Name == id.Name
	})
}

// may reports whether an object may move between two places.
func (p places) may(was places) bool {
	if was.Objects == p.Objects {
		return false
	}
	for _, set := range p.home {
		if set == "" {
			return true
		}
	}
	return len(p.with(was).Sets) > 1
}

// with returns the union.
func (p places) with(was places) places {
	all := maps.Clone(p.Sets)
	maps.Copy(all, was.Sets)
	return places{Sets: all, Complete: p.Complete}
}

// settle releases objects from the sets that they leave for another place, before any set is applied. It returns the sets that are
// left without an object of the work.
func (a *agent) settle(ctx context.Context, work *ocm.ManifestWork, was, now places) (gone places, err error) {
	if !now.may(was) {
		return gone, nil
	}
	all := now.with(was)
	if was.Objects != "" { // a kill leaves no unrecorded set
		if err := a.recordPlaces(ctx, work, all); err != nil {
			return gone, err
		}
	}
	gone.Sets = map[string]string{}
	for name, manager := range all.Sets {
		set := setNamed(name)
		if !a.exists(ctx, set) {
			continue
		}
		leaves := func(ref kube.Ref) bool {
			ref.Version = ""
			home, known := now.home[ref]
			return known && home != name
		}
		if _, err := a.engine(manager).Release(ctx, set, leaves); err != nil {
			return gone, err
		}
		if _, used := now.Sets[name]; !used {
			gone.Sets[name] = manager
		}
	}
	return gone, nil
}

// findHomes finds the objects that are only to be created now, and that the work has applied in another manner before. They stay in their
// set, and so go with the work.
func (a *agent) findHomes(ctx context.Context, work *ocm.ManifestWork, was places, manifests []manifest) {
	for i := range manifests {
		m := &manifests[i]
		if s := m.config.UpdateStrategy; m.err != nil || s == nil || s.Type != ocm.UpdateCreateOnly {
			continue
		}
		live, err := a.live(ctx, m.object)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			m.err = fmt.Errorf("find its owner: %w", err)
			continue
		}
		for name, manager := range was.Sets {
			for _, force := range []bool{true, false} {
				if how := (strategy{manager: manager, force: force}); how.set(work.Name).Name == name && setNamed(name).Holds(live) {
					m.home = &how
				}
			}
		}
	}
}

// dropSets deletes sets of a work with their objects. Those that fail stay in p.
func (a *agent) dropSets(ctx context.Context, work *ocm.ManifestWork, p places) {
	for name, manager := range p.Sets {
		if err := a.deleteSet(ctx, setNamed(name), manager); err != nil {
			a.Log.WarnContext(ctx, "objects that left a work were not deleted", "work", work.Name, "error", err)
			continue
		}
		delete(p.Sets, name)
	}
}
