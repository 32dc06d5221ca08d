// Package inventory reads the hub's objects about an add-on, for the controllers and for commands that explain them: its placements,
// clusters and configurations, in the form that package configuration takes. It changes nothing.
package inventory

import (
	"context"
	"errors"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/configuration"
	"github.com/sealift/sealift/fleet/install"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/strategy"
)

// Annotations that users set.
const (
	// Occasional marks a ManagedCluster that is seldom in contact. It loses no add-on by being unreachable.
	Occasional = "fleet.sealift.dev/occasional"
	// Carried marks a ManagedCluster that is reached only by parcels and reports. It is occasional too.
	Carried = "fleet.sealift.dev/carried"
	// ClusterNamespace names the namespace of a carried ManagedCluster's Cluster. Default is the ManagedCluster's own namespace.
	ClusterNamespace = "fleet.sealift.dev/cluster-namespace"
	// Paused keeps the rollout of a ClusterManagementAddOn from starting on another cluster.
	Paused = "fleet.sealift.dev/paused"
	// Uncarried on an AddOnTemplate allows images that no package of the hub's store carries: clusters have them from elsewhere.
	Uncarried = "fleet.sealift.dev/uncarried-images"
	// ForceDelete removes a ManagedClusterAddOn without its hooks, and without waiting for its cluster.
	ForceDelete = "fleet.sealift.dev/force-delete"
)

// Conditions of a ManagedCluster.
const (
	Accepted  = "HubAcceptedManagedCluster"
	Available = "ManagedClusterConditionAvailable"
)

// RequirementsMet is the condition of a ManagedClusterAddOn whether the add-ons that it requires are healthy on its cluster.
const RequirementsMet = "RequirementsMet"

// The types of configuration that the hub renders.
var (
	Templates         = ocm.ConfigType{Group: ocm.AddOnVersion.Group, Resource: "addontemplates"}
	DeploymentConfigs = ocm.ConfigType{Group: ocm.AddOnVersion.Group, Resource: "addondeploymentconfigs"}
)

// Name is the field by which ManagedClusterAddOns are listed. A cache needs an index of it.
const Name = "metadata.name"

// Reader reads from a hub.
type Reader struct {
	client.Reader
	Mapper meta.RESTMapper
	// Watch is called with each kind of configuration before its objects are read. Nil watches nothing.
	Watch func(schema.GroupVersionKind) error
}

// AddOn is a ClusterManagementAddOn with the objects that it depends on. A reader with a cache shares Clusters and Installed with it: who
// changes one changes a copy.
type AddOn struct {
	*ocm.ClusterManagementAddOn
	// Placements are those of the install strategy, nil for one that does not exist. Groups are their decisions.
	Placements []*ocm.Placement
	Groups     [][]strategy.Group
	Clusters   map[string]*ocm.ManagedCluster
	Installed  []*ocm.ManagedClusterAddOn
	// Held has the clusters on which an add-on that this one requires is not healthy, and why nothing starts there.
	Held map[string]string
}

// AddOn reads the objects that determine an add-on.
func (r Reader) AddOn(ctx context.Context, addOn *ocm.ClusterManagementAddOn) (*AddOn, error) {
	f := &AddOn{ClusterManagementAddOn: addOn, Clusters: make(map[string]*ocm.ManagedCluster)}
	var clusters ocm.List[ocm.ManagedCluster]
	var installed ocm.List[ocm.ManagedClusterAddOn]
	if err := errors.Join(r.List(ctx, &clusters, client.UnsafeDisableDeepCopy), r.List(ctx, &installed, client.MatchingFields{Name: addOn.Name}, client.UnsafeDisableDeepCopy)); err != nil {
		return nil, err
	}
	for i := range clusters.Items {
		f.Clusters[clusters.Items[i].Name] = &clusters.Items[i]
	}
	for i := range installed.Items {
		f.Installed = append(f.Installed, &installed.Items[i])
	}
	var err error
	if f.Held, err = r.held(ctx, f); err != nil {
		return nil, err
	}
	if addOn.Spec.InstallStrategy.Type != ocm.InstallPlacements {
		return f, nil
	}
	for _, entry := range addOn.Spec.InstallStrategy.Placements {
		var p ocm.Placement
		var decisions ocm.List[ocm.PlacementDecision]
		err := r.Get(ctx, types.NamespacedName{Namespace: entry.Namespace, Name: entry.Name}, &p)
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		if err != nil {
			f.Placements, f.Groups = append(f.Placements, nil), append(f.Groups, nil)
			continue
		}
		if err := r.List(ctx, &decisions, client.InNamespace(entry.Namespace), client.MatchingLabels{ocm.PlacementLabel: entry.Name}); err != nil {
			return nil, err
		}
		f.Placements, f.Groups = append(f.Placements, &p), append(f.Groups, strategy.Groups(decisions.Items))
	}
	return f, nil
}

// Install returns the add-on as package install sees it.
func (a *AddOn) Install() install.AddOn {
	in := install.AddOn{Name: a.Name, Annotations: a.Annotations, Manual: a.Spec.InstallStrategy.Type != ocm.InstallPlacements}
	for i, p := range a.Placements {
		entry := install.Placement{ConfigObject: a.Spec.InstallStrategy.Placements[i].ConfigObject, Exists: p != nil}
		entry.Misconfigured = p != nil && meta.IsStatusConditionTrue(p.Status.Conditions, "PlacementMisconfigured")
		// a placement that was not evaluated yet selects nothing so far, which removes nothing either
		if p != nil && p.Annotations[ocm.SchedulingDisabled] != "true" && len(p.Status.Conditions) == 0 {
			entry.Exists = false
		}
		for _, g := range a.Groups[i] {
			entry.Clusters = append(entry.Clusters, g.Clusters...)
		}
		in.Placements = append(in.Placements, entry)
	}
	return in
}

// Input returns the add-on as package configuration sees it. Hashes are those of the objects that lookup finds.
func (r Reader) Input(ctx context.Context, a *AddOn, states States, lookup *Lookup) (configuration.Input, error) {
	in := configuration.Input{Defaults: defaults(a.ClusterManagementAddOn), Paused: a.Annotations[Paused] == "true", Held: a.Held}
	in.DefaultRefs = configuration.ResolveDefaults(configuration.Defaults(in.Defaults, a.Status.DefaultConfigReferences), lookup.Object)
	for i, entry := range a.Spec.InstallStrategy.Placements {
		if i >= len(a.Placements) || a.Placements[i] == nil {
			continue
		}
		had := Progression(a.ClusterManagementAddOn, entry.ConfigObject).ConfigReferences
		configs := configuration.Install(in.Defaults, configuration.Requested{ConfigObject: entry.ConfigObject, Configs: entry.Configs}, had)
		in.Placements = append(in.Placements, configuration.Placement{
			ConfigObject: entry.ConfigObject, Strategy: entry.RolloutStrategy, Groups: a.Groups[i], State: states[entry.ConfigObject],
			PerGroup: perGroup(a.Placements[i]),
			Configs:  configuration.Resolve(configs, lookup.Object),
		})
	}
	var err error
	if in.AddOns, err = r.targets(ctx, a); err != nil {
		return in, err
	}
	return in, lookup.Err()
}

// Refresh brings the references that the add-on gets on a cluster up to date with their objects: those that the cluster names itself follow
// them at once.
func (a *AddOn) Refresh(on *ocm.ManagedClusterAddOn, refs []ocm.ConfigReference, lookup *Lookup) []ocm.ConfigReference {
	supported := on.Status.SupportedConfigs
	if UsesTemplate(a.ClusterManagementAddOn) {
		supported = Supported(a.ClusterManagementAddOn)
	}
	return configuration.Refresh(refs, on.Spec.Configs, supported, lookup.Object)
}

// defaults returns the default configurations of an add-on.
func defaults(a *ocm.ClusterManagementAddOn) []ocm.AddOnConfig {
	var list []ocm.AddOnConfig
	for _, s := range a.Spec.SupportedConfigs {
		if s.DefaultConfig != nil {
			list = append(list, ocm.AddOnConfig{ConfigType: s.ConfigType, ConfigObject: *s.DefaultConfig})
		}
	}
	return list
}

// perGroup returns the placement's clustersPerDecisionGroup, or nil if it has none.
func perGroup(p *ocm.Placement) *intstr.IntOrString {
	n := p.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup
	if n == (intstr.IntOrString{}) {
		return nil
	}
	return &n
}

// Progression returns the status of a placement.
func Progression(a *ocm.ClusterManagementAddOn, p ocm.ConfigObject) ocm.InstallProgression {
	for _, known := range a.Status.InstallProgressions {
		if known.ConfigObject == p {
			return known
		}
	}
	return ocm.InstallProgression{ConfigObject: p}
}

// targets returns the add-on on each cluster as decisions see it.
func (r Reader) targets(ctx context.Context, f *AddOn) ([]configuration.AddOn, error) {
	var list []configuration.AddOn
	for _, a := range f.Installed {
		cluster := f.Clusters[a.Namespace]
		if cluster == nil || !a.DeletionTimestamp.IsZero() {
			continue
		}
		t := configuration.AddOn{
			Cluster: a.Namespace, Configs: a.Spec.Configs, References: References(a),
			Progressing: condition(a, "Progressing"), Available: condition(a, "Available"),
			Occasional: IsOccasional(cluster), Carried: IsCarried(cluster),
		}
		if t.Occasional {
			t.Asleep = IsAsleep(cluster)
			var err error
			if t.LastSeen, err = r.LastSeen(ctx, cluster); err != nil {
				return nil, err
			}
		}
		list = append(list, t)
	}
	return list, nil
}

// IsOccasional reports whether a cluster may be unreachable without losing anything.
func IsOccasional(c *ocm.ManagedCluster) bool {
	return c.Annotations[Occasional] == "true" || IsCarried(c)
}

// IsCarried reports whether a cluster is reached by parcels alone.
func IsCarried(c *ocm.ManagedCluster) bool { return c.Annotations[Carried] == "true" }

// IsAsleep reports whether an occasional cluster is out of contact. A carried one always is.
func IsAsleep(c *ocm.ManagedCluster) bool {
	return IsCarried(c) || IsOccasional(c) && !meta.IsStatusConditionTrue(c.Status.Conditions, Available)
}

// LastSeen returns when the agent of a cluster was last in contact.
func (r Reader) LastSeen(ctx context.Context, cluster *ocm.ManagedCluster) (time.Time, error) {
	var lease coordinationv1.Lease
	err := r.Get(ctx, types.NamespacedName{Namespace: cluster.Name, Name: ocm.ClusterLease}, &lease)
	switch {
	case err == nil && lease.Spec.RenewTime != nil:
		return lease.Spec.RenewTime.Time, nil
	case client.IgnoreNotFound(err) != nil:
		return time.Time{}, err
	}
	if since := meta.FindStatusCondition(cluster.Status.Conditions, Accepted); since != nil {
		return since.LastTransitionTime.Time, nil
	}
	return cluster.CreationTimestamp.Time, nil
}

// References returns the configurations that an add-on on a cluster has.
func References(a *ocm.ManagedClusterAddOn) []ocm.ConfigReference {
	var list []ocm.ConfigReference
	for _, ref := range a.Status.ConfigReferences {
		list = append(list, ref.ConfigReference)
	}
	return list
}

func condition(a *ocm.ManagedClusterAddOn, kind string) configuration.Condition {
	c := meta.FindStatusCondition(a.Status.Conditions, kind)
	if c == nil {
		return configuration.Condition{}
	}
	return configuration.Condition{Status: string(c.Status), Reason: c.Reason, Message: c.Message, LastTransitionTime: c.LastTransitionTime.Time}
}

// UsesTemplate reports whether the hub renders an add-on. The others have their own manager.
func UsesTemplate(a *ocm.ClusterManagementAddOn) bool {
	return slices.Contains(Supported(a), Templates)
}

// Supported returns the configuration types of an add-on: its own, and those of its placements (O-12).
func Supported(a *ocm.ClusterManagementAddOn) []ocm.ConfigType {
	var types []ocm.ConfigType
	for _, s := range a.Spec.SupportedConfigs {
		types = append(types, s.ConfigType)
	}
	for _, p := range a.Spec.InstallStrategy.Placements {
		for _, c := range p.Configs {
			if !slices.Contains(types, c.ConfigType) {
				types = append(types, c.ConfigType)
			}
		}
	}
	return types
}
