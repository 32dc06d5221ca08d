package relation

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/fleet/deploy"
	"github.com/sealift/sealift/fleet/ocm"
)

// Conflict is the condition of an add-on that wants a foreign object. It has this reason.
const (
	Conflict      = "Conflict"
	OwnedByOthers = "OwnedByOthers"
)

// ManifestConflict is the reason by which an agent reports an object with another owner on its cluster.
const ManifestConflict = "AppliedManifestConflict"

// Contest is an object that an add-on wants and another work has.
type Contest struct {
	Object ocm.ResourceIdentifier
	Work   ocm.ManifestWork
}

// Contests returns the objects of planned works that belong to other works in the same namespaces. Of two works with one
// object, the one that its agent has applied owns it. While none is applied, or both are, the older one does.
func Contests(planned, existing, others []ocm.ManifestWork) []Contest {
	mine := claims(existing)
	var contests []Contest
	for id, wanted := range claims(planned) {
		for _, other := range claims(others)[id] {
			if other.Namespace != wanted[0].Namespace {
				continue
			}
			at := slices.IndexFunc(mine[id], func(w ocm.ManifestWork) bool { return w.Namespace == other.Namespace })
			if at < 0 || first(id, other, mine[id][at]) {
				contests = append(contests, Contest{Object: id, Work: other})
			}
		}
	}
	slices.SortFunc(contests, func(a, b Contest) int { return strings.Compare(a.String(), b.String()) })
	return contests
}

func (c Contest) String() string {
	name := strings.Trim(c.Object.Namespace+"/"+c.Object.Name, "/")
	owner := "ManifestWork " + c.Work.Namespace + "/" + c.Work.Name
	if addOn := c.Work.Labels[ocm.AddOnLabel]; addOn != "" {
		owner = "add-on " + addOn
	}
	return fmt.Sprintf("%s %s on cluster %s belongs to %s", c.Object.Resource, name, c.Work.Namespace, owner)
}

// Message names the contested objects, and the remedy.
func Message(contests []Contest) string {
	var list []string
	for _, c := range contests[:min(len(contests), 5)] {
		list = append(list, c.String())
	}
	if more := len(contests) - len(list); more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, "; ") + ": take it out of one of the two, or remove one of them from the cluster"
}

// Reported returns the agents' reports of objects with other owners on their clusters.
func Reported(works []ocm.ManifestWork) string {
	for _, w := range works {
		for _, m := range w.Status.ResourceStatus.Manifests {
			if c := meta.FindStatusCondition(m.Conditions, "Applied"); c != nil && c.Status == metav1.ConditionFalse && c.Reason == ManifestConflict {
				name := strings.Trim(m.ResourceMeta.Namespace+"/"+m.ResourceMeta.Name, "/")
				return fmt.Sprintf("%s %s on cluster %s: %s", m.ResourceMeta.Resource, name, w.Namespace, strings.TrimPrefix(c.Message, "Failed to apply manifest: "))
			}
		}
	}
	return ""
}

// claims returns the works by the objects that they apply. Namespaces are shared, and read-only objects belong to nobody.
func claims(works []ocm.ManifestWork) map[ocm.ResourceIdentifier][]ocm.ManifestWork {
	found := make(map[ocm.ResourceIdentifier][]ocm.ManifestWork)
	for _, w := range works {
		for _, m := range w.Spec.Workload.Manifests {
			id := deploy.Identify(m)
			strategy := w.Spec.ConfigOf(id).UpdateStrategy
			reads := strategy != nil && strategy.Type == ocm.UpdateReadOnly
			if !reads && (id.Resource != "namespaces" || id.Group != "") {
				found[id] = append(found[id], w)
			}
		}
	}
	return found
}

// first reports whether an object that two works have belongs to the first.
func first(id ocm.ResourceIdentifier, a, b ocm.ManifestWork) bool {
	if x, y := applied(id, a), applied(id, b); x != y {
		return x
	}
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// applied reports whether an agent has applied an object of a work.
func applied(id ocm.ResourceIdentifier, w ocm.ManifestWork) bool {
	for _, m := range w.Status.ResourceStatus.Manifests {
		at := m.ResourceMeta
		if at.Group == id.Group && at.Resource == id.Resource && at.Namespace == id.Namespace && at.Name == id.Name {
			return meta.IsStatusConditionTrue(m.Conditions, "Applied")
		}
	}
	return false
}
