package placement

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/sealift/sealift/fleet/ocm"
)

// Bound returns the names of the sets that are bound to a namespace, sorted. A binding has the name of its set, and counts
// only if the set exists.
func Bound(namespace string, bindings []ocm.ManagedClusterSetBinding, sets []ocm.ManagedClusterSet) []string {
	var names []string
	for _, b := range bindings {
		exists := slices.ContainsFunc(sets, func(s ocm.ManagedClusterSet) bool { return s.Name == b.Spec.ClusterSet })
		if b.Namespace == namespace && b.Name == b.Spec.ClusterSet && exists {
			names = append(names, b.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Eligible returns the clusters of the bound sets that the placement names, or all if it names none (O-39).
func Eligible(bound, wanted []string) []string {
	if len(wanted) == 0 {
		return bound
	}
	return slices.DeleteFunc(slices.Clone(bound), func(name string) bool { return !slices.Contains(wanted, name) })
}

// Candidates returns the clusters of the named sets, sorted by name. Clusters that are being deleted do not count.
func Candidates(names []string, sets []ocm.ManagedClusterSet, clusters []*ocm.ManagedCluster) ([]*ocm.ManagedCluster, error) {
	var selectors []labels.Selector
	for _, s := range sets {
		if !slices.Contains(names, s.Name) {
			continue
		}
		selector, err := members(s)
		if err != nil {
			return nil, err
		}
		selectors = append(selectors, selector)
	}
	var list []*ocm.ManagedCluster
	for _, c := range clusters {
		in := slices.ContainsFunc(selectors, func(s labels.Selector) bool { return s.Matches(labels.Set(c.Labels)) })
		if in && c.DeletionTimestamp.IsZero() {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b *ocm.ManagedCluster) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Emptiness returns condition ClusterSetEmpty of a set. Clusters that are being deleted are members until they are gone.
func Emptiness(s ocm.ManagedClusterSet, clusters []ocm.ManagedCluster) Condition {
	selector, err := members(s)
	if err != nil {
		return Condition{"ClusterSetEmpty", "Unknown", "InvalidSelector", err.Error()}
	}
	count := 0
	for i := range clusters {
		if selector.Matches(labels.Set(clusters[i].Labels)) {
			count++
		}
	}
	if count == 0 {
		return Condition{"ClusterSetEmpty", "True", "NoClusterMatched", "No ManagedCluster selected"}
	}
	return Condition{"ClusterSetEmpty", "False", "ClustersSelected", fmt.Sprintf("%d ManagedClusters selected", count)}
}

// Boundness returns condition Bound of a binding.
func Boundness(b ocm.ManagedClusterSetBinding, sets []ocm.ManagedClusterSet) Condition {
	switch {
	case len(Bound(b.Namespace, []ocm.ManagedClusterSetBinding{b}, sets)) > 0:
		return Condition{"Bound", "True", "ClusterSetBound", ""}
	case b.Name != b.Spec.ClusterSet:
		return Condition{"Bound", "False", "NameMismatch", "name the binding like its set, " + b.Spec.ClusterSet}
	}
	return Condition{"Bound", "False", "ClusterSetNotFound", "there is no ManagedClusterSet " + b.Spec.ClusterSet}
}

// members returns the selector of a set.
func members(s ocm.ManagedClusterSet) (labels.Selector, error) {
	switch kind := s.Spec.ClusterSelector.SelectorType; kind {
	case ocm.LabelSelector:
		return metav1.LabelSelectorAsSelector(s.Spec.ClusterSelector.LabelSelector)
	case "", ocm.ExclusiveClusterSetLabel:
		return labels.SelectorFromSet(labels.Set{ocm.ClusterSetLabel: s.Name}), nil
	default:
		return nil, fmt.Errorf("ManagedClusterSet %s has selectorType %q, not %s or %s", s.Name, kind, ocm.ExclusiveClusterSetLabel, ocm.LabelSelector)
	}
}
