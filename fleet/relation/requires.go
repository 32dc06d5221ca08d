// Package relation decides between the add-ons of one cluster: which comes before which, and who owns an object that several of
// them have. It is pure.
package relation

import (
	"fmt"
	"slices"
	"strings"
)

// Requires is the annotation of a ClusterManagementAddOn, or of a HelmChartProxy, that names others of its kind, separated
// by commas. It starts and changes on a cluster only while these are healthy there.
const Requires = "fleet.sealift.dev/requires"

// Names reads the annotation.
func Names(annotations map[string]string) []string {
	var names []string
	for name := range strings.SplitSeq(annotations[Requires], ",") {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// AddOns are all add-ons that may require each other.
type AddOns struct {
	// Kind names them in messages, such as ClusterManagementAddOn.
	Kind string
	// Requires returns the requirements of an add-on, and whether the add-on exists.
	Requires func(name string) (names []string, exists bool)
	// Unready returns why an add-on is not healthy on a cluster, as the end of "it". Empty means that it is.
	Unready func(name, cluster string) string
}

// Broken returns mistakes in the requirements of an add-on on all clusters, and the remedy. Empty means that they can be met.
func (a AddOns) Broken(name string) string {
	names, _ := a.Requires(name)
	for _, other := range names {
		if _, exists := a.Requires(other); !exists {
			return fmt.Sprintf("%s %s requires %s, which does not exist: create it, or take it out of annotation %s", a.Kind, name, other, Requires)
		}
	}
	if circle := a.circle(name, []string{name}, map[string]bool{}); circle != nil {
		return fmt.Sprintf("%s %s requires itself (%s): take one of them out of annotation %s", a.Kind, name, strings.Join(circle, " requires "), Requires)
	}
	return ""
}

// circle finds a path back to an add-on. No path leads back from the visited ones.
func (a AddOns) circle(name string, way []string, seen map[string]bool) []string {
	names, _ := a.Requires(way[len(way)-1])
	for _, next := range names {
		if next == name {
			return append(slices.Clone(way), next)
		}
		if seen[next] {
			continue
		}
		seen[next] = true
		if found := a.circle(name, append(slices.Clone(way), next), seen); found != nil {
			return found
		}
	}
	return nil
}

// Waits returns what an add-on waits for on a cluster, and the remedy. Empty means that it may start.
func (a AddOns) Waits(name, cluster string) string {
	if broken := a.Broken(name); broken != "" {
		return broken
	}
	names, _ := a.Requires(name)
	for _, other := range names {
		if why := a.Unready(other, cluster); why != "" {
			return fmt.Sprintf("%s requires %s, and on cluster %s it %s: repair it there, or take it out of annotation %s of %s %s",
				name, other, cluster, why, Requires, a.Kind, name)
		}
	}
	return ""
}
