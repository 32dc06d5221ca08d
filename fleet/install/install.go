// Package install says on which clusters an add-on is installed (O-5 to O-10, X-12, X-14). It is pure: a controller
// observes the add-on, its placements and its ManagedClusterAddOns, and makes the changes that Decide names.
package install

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sealift/sealift/fleet/conversion"
	"github.com/sealift/sealift/fleet/ocm"
)

const (
	group = "addon.open-cluster-management.io"
	// lifecycle names the manager of the add-on. With self this hub does not.
	lifecycle = group + "/lifecycle"
	// hostingCluster names the cluster that hosts the agent. A user sets it on a cluster or on an add-on of it.
	hostingCluster = group + "/hosting-cluster-name"
)

// AddOn is a ClusterManagementAddOn.
type AddOn struct {
	Name        string
	Annotations map[string]string
	// Manual add-ons are installed by users only.
	Manual     bool
	Placements []Placement
}

// Placement is one that the install strategy names.
type Placement struct {
	ocm.ConfigObject
	// Exists and Misconfigured report whether its decisions count.
	Exists, Misconfigured bool
	// Clusters are those of its decisions.
	Clusters []string
}

// Cluster is a ManagedCluster.
type Cluster struct {
	Name        string
	Annotations map[string]string
	Deleting    bool
}

// Installed is a ManagedClusterAddOn of the add-on.
type Installed struct {
	Cluster     string
	Annotations map[string]string
	// Owned means that the add-on is its owner.
	Owned    bool
	Deleting bool
}

// Verb is a kind of change.
type Verb string

// What happens with a ManagedClusterAddOn.
const (
	Create Verb = "Create" // with the annotations, and the add-on as its controller
	Update Verb = "Update" // annotations, and an owner reference
	Delete Verb = "Delete"
)

// Change is a change of one ManagedClusterAddOn.
type Change struct {
	Verb        Verb
	Cluster     string
	Annotations map[string]string
}

// Decide returns the changes, sorted by cluster, and mistakes in placements. While a placement does not count, no add-on is
// removed.
func Decide(a AddOn, clusters []Cluster, installed []Installed) (changes []Change, warnings []string) {
	if Unmanaged(a.Annotations) {
		return nil, nil
	}
	known := make(map[string]Cluster, len(clusters))
	for _, c := range clusters {
		known[c.Name] = c
	}
	wanted := make(map[string]bool)
	for _, p := range a.Placements {
		if why := unusable(p); why != "" && !a.Manual {
			warnings = append(warnings, fmt.Sprintf("placement %s/%s %s; no add-on is removed until it is repaired", p.Namespace, p.Name, why))
		}
		for _, name := range p.Clusters {
			wanted[name] = !a.Manual
		}
	}
	has := make(map[string]bool)
	for _, i := range installed {
		has[i.Cluster] = true
		c, found := known[i.Cluster]
		switch {
		case i.Deleting:
		case !a.Manual && !wanted[i.Cluster] && len(warnings) == 0:
			changes = append(changes, Change{Verb: Delete, Cluster: i.Cluster})
		default:
			annotations := i.Annotations
			if found && !a.Manual {
				annotations = sync(i.Annotations, c.Annotations)
			}
			if !i.Owned || !maps.Equal(annotations, i.Annotations) {
				changes = append(changes, Change{Verb: Update, Cluster: i.Cluster, Annotations: annotations})
			}
		}
	}
	for name := range wanted {
		if c, found := known[name]; wanted[name] && found && !c.Deleting && !has[name] {
			changes = append(changes, Change{Verb: Create, Cluster: name, Annotations: sync(nil, c.Annotations)})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return changes, warnings
}

// Unmanaged reports whether this hub leaves an add-on with these annotations alone (O-5).
func Unmanaged(annotations map[string]string) bool { return annotations[lifecycle] == "self" }

// unusable says why the decisions of a placement do not count, or "".
func unusable(p Placement) string {
	switch {
	case !p.Exists:
		return "does not exist"
	case p.Misconfigured:
		return "has a mistake"
	}
	return ""
}

// sync returns the annotations of an add-on merged with those of its cluster that concern add-ons. It adds, changes and removes
// them, but never removes a user's own on the add-on (O-8, X-14).
func sync(addon, cluster map[string]string) map[string]string {
	synced := make(map[string]string)
	for key, value := range addon {
		if !concerns(key) || key == conversion.InstallNamespace || key == hostingCluster {
			synced[key] = value
		}
	}
	for key, value := range cluster {
		if concerns(key) {
			synced[key] = value
		}
	}
	return synced
}

func concerns(key string) bool { return strings.HasPrefix(key, group) }
