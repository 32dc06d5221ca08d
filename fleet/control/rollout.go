package control

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/configuration"
	"github.com/sealift/sealift/fleet/deploy"
	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/relation"
	"github.com/sealift/sealift/fleet/status"
)

// configure determines the configuration of each cluster, and gives it to those whose turn it is. It returns when to look again.
func (r *addOns) configure(ctx context.Context, f *inventory.AddOn, warnings []string) (again time.Duration, err error) {
	states, err := r.rollouts.recall(ctx, f.ClusterManagementAddOn.Name)
	if err != nil {
		return 0, err
	}
	lookup := r.reader.Lookup(ctx)
	in, err := r.reader.Input(ctx, f, states, lookup)
	if err != nil {
		return 0, err
	}
	after := copyOf(f.ClusterManagementAddOn)
	after.Status.DefaultConfigReferences = in.DefaultRefs
	now := r.now()
	result := configuration.Decide(in, now)
	switch missing, ended, err := r.missing(ctx, f, result, lookup); {
	case err != nil || !ended:
		return 0, err // what looks for images calls again
	case len(missing) > 0:
		return r.LookupInterval, r.withhold(ctx, f, result, missing)
	}
	for _, p := range result.Placements {
		if t := p.Rollout.Again; !t.IsZero() && (again == 0 || r.until(t) < again) {
			again = r.until(t)
		}
	}
	// a decision is stored before it is applied, so that a hub killed in between decides the same again
	wait, err := r.rollouts.remember(ctx, f.ClusterManagementAddOn, result.Placements)
	if err != nil {
		return 0, err
	}
	if wait > 0 && (again == 0 || wait < again) {
		again = wait
	}
	switch err := r.assign(ctx, f, result, len(warnings) > 0, lookup); {
	case errors.Is(err, errBehind):
		return settle, nil
	case err != nil:
		return 0, err
	}
	after.Status.InstallProgressions = r.progressions(f, result, warnings)
	return again, r.patchStatus(ctx, f.ClusterManagementAddOn, after)
}

// progressions returns the status of each placement (O-26).
func (r *addOns) progressions(f *inventory.AddOn, result configuration.Result, warnings []string) []ocm.InstallProgression {
	var list []ocm.InstallProgression
	if f.ClusterManagementAddOn.Spec.InstallStrategy.Type != ocm.InstallPlacements {
		return nil
	}
	for _, entry := range f.ClusterManagementAddOn.Spec.InstallStrategy.Placements {
		p := inventory.Progression(f.ClusterManagementAddOn, entry.ConfigObject)
		p.Conditions = slices.Clone(p.Conditions)
		reason, message, value := "Progressing", "", "True"
		for _, w := range warnings {
			if strings.HasPrefix(w, "placement "+entry.Namespace+"/"+entry.Name+" ") {
				message = w
			}
		}
		for _, progress := range result.Placements {
			if progress.Placement.ConfigObject != entry.ConfigObject {
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

// assign writes the decisions to the clusters. While a placement does not count, clusters that no other placement selects keep
// their configuration. It returns errBehind if some have to wait for the cache.
func (r *addOns) assign(ctx context.Context, f *inventory.AddOn, result configuration.Result, frozen bool, lookup *inventory.Lookup) error {
	selected := make(map[string]bool)
	for _, p := range result.Placements {
		for _, name := range p.Configured {
			selected[name] = true
		}
	}
	at := installedAt(f)
	templated := inventory.UsesTemplate(f.ClusterManagementAddOn)
	var assignments []assignment
	var signed []string // the clusters whose works the hub is going to sign
	late := false
	for _, d := range result.AddOns {
		if frozen && !selected[d.Cluster] {
			continue
		}
		a := at[d.Cluster]
		if r.outdated.behind(a) {
			late = true
			continue
		}
		refs := f.Refresh(a, d.References, lookup)
		g := assignment{a, refs, d.Condition(), changesConfig(inventory.References(a), refs)}
		if assignments = append(assignments, g); g.moved && templated {
			signed = append(signed, d.Cluster)
		}
	}
	if err := lookup.Err(); err != nil {
		return err
	}
	r.signer.ledger.Expect(signed...)
	r.pending.begin()
	defer r.pending.end()
	var group errgroup.Group
	group.SetLimit(r.Concurrency)
	for _, g := range assignments {
		group.Go(func() error { return r.assignOne(ctx, f, g) })
	}
	if err := group.Wait(); err != nil || !late {
		return err
	}
	return errBehind
}

// assignment is the configuration that an add-on gets on a cluster.
type assignment struct {
	addOn      *ocm.ManagedClusterAddOn
	refs       []ocm.ConfigReference
	configured configuration.Condition
	moved      bool // it is another one than before
}

func (r *addOns) assignOne(ctx context.Context, f *inventory.AddOn, g assignment) error {
	a, after := g.addOn, copyOf(g.addOn)
	if g.configured.Status != "" {
		r.set(&after.Status.Conditions, "Configured", g.configured.Status, g.configured.Reason, g.configured.Message)
	}
	switch why := f.Held[a.Namespace]; {
	case len(relation.Names(f.Annotations)) == 0:
		meta.RemoveStatusCondition(&after.Status.Conditions, inventory.RequirementsMet)
	case why != "":
		r.set(&after.Status.Conditions, inventory.RequirementsMet, "False", "WaitsForOthers", why)
	default:
		r.set(&after.Status.Conditions, inventory.RequirementsMet, "True", "RequirementsHealthy", "all add-ons that this one requires are healthy")
	}
	if inventory.UsesTemplate(f.ClusterManagementAddOn) {
		after.Status.SupportedConfigs = inventory.Supported(f.ClusterManagementAddOn)
	}
	after.Status.ConfigReferences = stored(g.refs)
	if g.moved {
		// The deadline of the new configuration begins now. From here on, whoever deploys it reports the progress.
		meta.RemoveStatusCondition(&after.Status.Conditions, "Progressing")
		works, err := r.works(ctx, a)
		if err != nil {
			return err
		}
		r.progress(after, works)
	}
	key := client.ObjectKeyFromObject(a)
	if g.moved && inventory.UsesTemplate(f.ClusterManagementAddOn) && r.hub.Holds(a.Namespace) {
		r.pending.add(key)
	}
	err := r.patchStatus(ctx, a, after)
	if err != nil {
		r.pending.done(key)
	}
	return client.IgnoreNotFound(err)
}

// progress brings condition Progressing and the references up to date with the works.
func (c *controllers) progress(a *ocm.ManagedClusterAddOn, works []ocm.ManifestWork) {
	state := status.AddOn{
		Name: a.Name, Configs: a.Spec.Configs, Supported: a.Status.SupportedConfigs, References: inventory.References(a),
		Conditions: a.Status.Conditions, Works: works, Hosted: a.Annotations[deploy.HostingCluster] != "",
	}
	condition, refs := state.Progressing()
	a.Status.ConfigReferences = stored(refs)
	c.set(&a.Status.Conditions, condition.Type, condition.Status, condition.Reason, condition.Message)
}

// changesConfig reports whether an add-on is to have another configuration.
func changesConfig(before, after []ocm.ConfigReference) bool {
	return !slices.EqualFunc(before, after, func(x, y ocm.ConfigReference) bool {
		same := x.DesiredConfig == y.DesiredConfig || x.DesiredConfig != nil && y.DesiredConfig != nil && *x.DesiredConfig == *y.DesiredConfig
		return x.ConfigType == y.ConfigType && same
	})
}

func stored(refs []ocm.ConfigReference) []ocm.StoredReference {
	var list []ocm.StoredReference
	for _, ref := range refs {
		list = append(list, ocm.StoredReference{ConfigReference: ref})
	}
	return list
}
