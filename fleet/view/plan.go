package view

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sealift/sealift/fleet/configuration"
	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/rollout"
)

// Plan is the course of a rollout if each cluster succeeded.
type Plan struct {
	AddOn string `json:"addOn"`
	// AtOnce are clusters that get a change outside of the rollout: their own configurations change, or no placement configures them.
	AtOnce     []string        `json:"atOnce,omitempty"`
	Placements []PlacementPlan `json:"placements"`
}

// PlacementPlan is the plan over one placement.
type PlacementPlan struct {
	Placement string `json:"placement"`
	Steps     []Step `json:"steps"`
	// Unchanged have the configuration already.
	Unchanged []string `json:"unchanged,omitempty"`
	// Held do not start, for the reason that they have as a value.
	Held map[string]rollout.Reason `json:"held,omitempty"`
	// Problem is why the rollout cannot run.
	Problem string `json:"problem,omitempty"`
}

// Step has the clusters that start together.
type Step struct {
	// After is how long the clusters before it soak at least.
	After    time.Duration `json:"after,omitempty"`
	Wave     string        `json:"wave"`
	Clusters []string      `json:"clusters"`
}

// Plan describes what the hub would do with an add-on, with some objects changed: the add-on itself, or configurations.
func (v View) Plan(ctx context.Context, name string, changed []*unstructured.Unstructured) (Plan, error) {
	known, err := v.read(ctx, name)
	if err != nil {
		return Plan{}, err
	}
	var configs []*unstructured.Unstructured
	for _, o := range changed {
		if o.GetKind() != "ClusterManagementAddOn" {
			configs = append(configs, o)
			continue
		}
		if o.GetName() != name || o.GetAPIVersion() != ocm.AddOnVersion.String() {
			return Plan{}, fmt.Errorf("the change has %s %s in %s, but the plan is for %s in %s", o.GetKind(), o.GetName(), o.GetAPIVersion(), name, ocm.AddOnVersion)
		}
		next := ocm.ClusterManagementAddOn{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &next); err != nil {
			return Plan{}, fmt.Errorf("read the change of %s: %w", name, err)
		}
		next.Status, next.UID = known.Status, known.UID
		if known, err = v.Reader.AddOn(ctx, &next); err != nil {
			return Plan{}, err
		}
	}
	lookup := v.Lookup(ctx, configs...)
	d, err := v.decide(ctx, known, lookup)
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{AddOn: name, Placements: []PlacementPlan{}}
	own := d.ownChanges(lookup)
	if err := lookup.Err(); err != nil {
		return Plan{}, fmt.Errorf("read the configuration of %s: %w", name, err)
	}
	selected := make(map[string]bool)
	for _, p := range d.result.Placements {
		for _, cluster := range p.Configured {
			selected[cluster] = true
		}
		next := simulate(p, v.Now())
		next.Unchanged = slices.DeleteFunc(next.Unchanged, func(cluster string) bool { return own[cluster] })
		plan.Placements = append(plan.Placements, next)
	}
	for _, a := range d.result.AddOns {
		if own[a.Cluster] || !selected[a.Cluster] && a.Status == rollout.Waiting {
			plan.AtOnce = append(plan.AtOnce, a.Cluster)
		}
	}
	return plan, nil
}

// ownChanges returns the clusters whose own configurations change.
func (d *decided) ownChanges(lookup *inventory.Lookup) map[string]bool {
	changes := make(map[string]bool)
	for _, a := range d.Installed {
		had := inventory.References(a)
		changes[a.Namespace] = !slices.EqualFunc(had, d.Refresh(a, had, lookup), func(x, y ocm.ConfigReference) bool {
			return x.DesiredConfig == y.DesiredConfig || *x.DesiredConfig == *y.DesiredConfig // only a hash may change
		})
	}
	return changes
}

// simulate lets each cluster that starts succeed, until no other one starts.
func simulate(p configuration.Progress, now time.Time) PlacementPlan {
	plan := PlacementPlan{Placement: p.Placement.Namespace + "/" + p.Placement.Name, Steps: []Step{}}
	if p.Err != nil {
		plan.Problem = p.Err.Error()
		return plan
	}
	run, state := p.Plan, p.Placement.State
	run.Targets = slices.Clone(run.Targets)
	began := make(map[string]bool)
	for _, t := range run.Targets {
		if t.Status == rollout.Succeeded || t.Status == rollout.Skipped {
			plan.Unchanged = append(plan.Unchanged, t.Name)
		}
	}
	slices.Sort(plan.Unchanged)
	for range len(run.Targets) + len(run.Spec.Waves) + 1 {
		result, err := run.Decide(state, now)
		if err != nil {
			plan.Problem = err.Error()
			return plan
		}
		state, plan.Held = result.State, nil
		step := Step{}
		if len(plan.Steps) > 0 {
			step.After = run.Spec.Soak
		}
		for _, decision := range result.Targets {
			switch {
			case decision.Action == rollout.Start && !began[decision.Name]:
				began[decision.Name] = true
				step.Clusters, step.Wave = append(step.Clusters, decision.Name), run.Spec.Waves[decision.Wave].Name
			case decision.Action == rollout.Wait:
				if plan.Held == nil {
					plan.Held = make(map[string]rollout.Reason)
				}
				plan.Held[decision.Name] = decision.Reason
			}
		}
		moved := false
		for i := range run.Targets {
			t := &run.Targets[i]
			if began[t.Name] && t.Status == rollout.Waiting || t.Status == rollout.Working && !t.Asleep {
				t.Status, t.Since, moved = rollout.Succeeded, now, true
			}
		}
		if len(step.Clusters) > 0 {
			plan.Steps = append(plan.Steps, step)
		}
		if !moved {
			return plan
		}
		now = now.Add(run.Spec.Soak)
	}
	return plan
}
