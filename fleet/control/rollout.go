package control

import (
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/configuration"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/status"
)

// configure finds the configuration of each cluster, and gives it to those whose turn it is. It returns when to look again.
func (r *addOns) configure(ctx context.Context, f *fleet, warnings []string) (again time.Duration, err error) {
	states, err := r.memory.recall(ctx, f.addOn.Name)
	if err != nil {
		return 0, err
	}
	lookup := r.configs.lookup(ctx)
	after := copyOf(f.addOn)
	in := configuration.Input{Defaults: Defaults(f.addOn), Paused: f.addOn.Annotations[Paused] == "true"}
	in.DefaultRefs = configuration.ResolveDefaults(configuration.Defaults(in.Defaults, f.addOn.Status.DefaultConfigReferences), lookup.object)
	after.Status.DefaultConfigReferences = in.DefaultRefs
	for i, wish := range f.addOn.Spec.InstallStrategy.Placements {
		if i >= len(f.placements) || f.placements[i] == nil {
			continue
		}
		configs := configuration.Install(in.Defaults, configuration.Wish{ConfigObject: wish.ConfigObject, Configs: wish.Configs}, progression(f.addOn, wish.ConfigObject).ConfigReferences)
		in.Placements = append(in.Placements, configuration.Placement{
			ConfigObject: wish.ConfigObject, Strategy: wish.RolloutStrategy, Groups: f.groups[i], State: states[wish.ConfigObject],
			PerGroup: perGroup(f.placements[i]),
			Configs:  configuration.Resolve(configs, lookup.object),
		})
	}
	if in.AddOns, err = r.targets(ctx, f); err != nil {
		return 0, err
	}
	if lookup.err != nil {
		return 0, lookup.err
	}
	now := r.now()
	result := configuration.Decide(in, now)
	for _, p := range result.Placements {
		states[p.Placement.ConfigObject] = p.Rollout.State
		if t := p.Rollout.Again; !t.IsZero() && (again == 0 || r.until(t) < again) {
			again = r.until(t)
		}
	}
	// what is decided is stored before it is done, so that a hub that is killed in between decides the same again
	if err := r.memory.remember(ctx, f.addOn, states); err != nil {
		return 0, err
	}
	if err := r.give(ctx, f, result, len(warnings) > 0, lookup); err != nil {
		return 0, err
	}
	after.Status.InstallProgressions = r.progressions(f, result, warnings)
	return again, r.patchStatus(ctx, f.addOn, after)
}

// Defaults returns the default configurations of an add-on.
func Defaults(a *ocm.ClusterManagementAddOn) []ocm.AddOnConfig {
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

// progression returns what the status has about a placement.
func progression(a *ocm.ClusterManagementAddOn, p ocm.ConfigObject) ocm.InstallProgression {
	for _, known := range a.Status.InstallProgressions {
		if known.ConfigObject == p {
			return known
		}
	}
	return ocm.InstallProgression{ConfigObject: p}
}

// progressions returns what the status says about each placement (O-26).
func (r *addOns) progressions(f *fleet, result configuration.Result, warnings []string) []ocm.InstallProgression {
	var list []ocm.InstallProgression
	if f.addOn.Spec.InstallStrategy.Type != ocm.InstallPlacements {
		return nil
	}
	for _, wish := range f.addOn.Spec.InstallStrategy.Placements {
		p := progression(f.addOn, wish.ConfigObject)
		p.Conditions = slices.Clone(p.Conditions)
		reason, message, value := "Progressing", "", "True"
		for _, w := range warnings {
			if strings.HasPrefix(w, "placement "+wish.Namespace+"/"+wish.Name+" ") {
				message = w
			}
		}
		for _, progress := range result.Placements {
			if progress.Placement.ConfigObject != wish.ConfigObject {
				continue
			}
			s := progress.Status()
			p.ConfigReferences = s.Configs
			if reason = s.Reason; s.Done {
				value = "False"
			}
			message = strings.Trim(s.Message+" "+message, " ")
		}
		r.set(&p.Conditions, "Progressing", value, reason, message)
		list = append(list, p)
	}
	return list
}

// targets returns the add-on on each cluster as decisions see it.
func (r *addOns) targets(ctx context.Context, f *fleet) ([]configuration.AddOn, error) {
	var list []configuration.AddOn
	for _, a := range f.installed {
		cluster := f.clusters[a.Namespace]
		if cluster == nil || !a.DeletionTimestamp.IsZero() {
			continue
		}
		t := configuration.AddOn{
			Cluster: a.Namespace, Configs: a.Spec.Configs, References: references(a),
			Progressing: condition(a, "Progressing"), Available: condition(a, "Available"),
			Occasional: cluster.Annotations[Occasional] == "true",
		}
		if t.Occasional {
			state := meta.FindStatusCondition(cluster.Status.Conditions, available)
			t.Asleep = state == nil || state.Status != metav1.ConditionTrue
			var err error
			if t.LastSeen, err = r.lastSeen(ctx, cluster); err != nil {
				return nil, err
			}
		}
		list = append(list, t)
	}
	return list, nil
}

// give writes the decisions to the clusters. While a placement does not count, clusters that no other placement selects
// keep what they have.
func (r *addOns) give(ctx context.Context, f *fleet, result configuration.Result, frozen bool, lookup *lookup) error {
	selected := make(map[string]bool)
	for _, p := range result.Placements {
		for _, name := range p.Configured {
			selected[name] = true
		}
	}
	at := make(map[string]*ocm.ManagedClusterAddOn)
	for _, a := range f.installed {
		at[a.Namespace] = a
	}
	var group errgroup.Group
	group.SetLimit(r.Concurrency)
	for _, d := range result.AddOns {
		if frozen && !selected[d.Cluster] {
			continue
		}
		group.Go(func() error { return r.giveOne(ctx, f.addOn, at[d.Cluster], d, lookup) })
	}
	return group.Wait()
}

func (r *addOns) giveOne(ctx context.Context, addOn *ocm.ClusterManagementAddOn, a *ocm.ManagedClusterAddOn, d configuration.Decision, lookup *lookup) error {
	after := copyOf(a)
	refs := configuration.Refresh(d.References, a.Spec.Configs, lookup.object)
	if err := lookup.err; err != nil {
		return err
	}
	if configured := d.Condition(); configured.Status != "" {
		r.set(&after.Status.Conditions, "Configured", configured.Status, configured.Reason, configured.Message)
	}
	if usesTemplate(addOn) {
		after.Status.SupportedConfigs = supported(addOn)
	}
	if moved(references(a), refs) {
		// the deadline of the new configuration begins now
		meta.RemoveStatusCondition(&after.Status.Conditions, "Progressing")
	}
	after.Status.ConfigReferences = stored(refs)
	works, err := r.works(ctx, a)
	if err != nil {
		return err
	}
	r.progress(after, works)
	return client.IgnoreNotFound(r.patchStatus(ctx, a, after))
}

// progress brings condition Progressing and the references up to date with the works.
func (c *controllers) progress(a *ocm.ManagedClusterAddOn, works []ocm.ManifestWork) {
	state := status.AddOn{
		Name: a.Name, Configs: a.Spec.Configs, Supported: a.Status.SupportedConfigs, References: references(a),
		Conditions: a.Status.Conditions, Works: works,
	}
	condition, refs := state.Progressing()
	a.Status.ConfigReferences = stored(refs)
	c.set(&a.Status.Conditions, condition.Type, condition.Status, condition.Reason, condition.Message)
}

// works returns the works of an add-on on its cluster.
func (c *controllers) works(ctx context.Context, a *ocm.ManagedClusterAddOn) ([]ocm.ManifestWork, error) {
	var list ocm.List[ocm.ManifestWork]
	err := c.List(ctx, &list, client.InNamespace(a.Namespace), client.MatchingLabels{ocm.AddOnLabel: a.Name})
	return status.Works(a.Name, a.Namespace, "", list.Items), err
}

// moved says whether an add-on is to have another configuration.
func moved(before, after []ocm.ConfigReference) bool {
	return !slices.EqualFunc(before, after, func(x, y ocm.ConfigReference) bool {
		same := x.DesiredConfig == y.DesiredConfig || x.DesiredConfig != nil && y.DesiredConfig != nil && *x.DesiredConfig == *y.DesiredConfig
		return x.ConfigType == y.ConfigType && same
	})
}

func references(a *ocm.ManagedClusterAddOn) []ocm.ConfigReference {
	var list []ocm.ConfigReference
	for _, ref := range a.Status.ConfigReferences {
		list = append(list, ref.ConfigReference)
	}
	return list
}

func stored(refs []ocm.ConfigReference) []ocm.StoredReference {
	var list []ocm.StoredReference
	for _, ref := range refs {
		list = append(list, ocm.StoredReference{ConfigReference: ref})
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
