// Package strategy runs OCM's rollout strategies on package rollout. It reads a RolloutStrategy and the decision groups
// of a placement, and says which clusters get a change now (O-18 to O-25, X-5 to X-11).
//
// All is one wave without limits. Progressive has a mandatory wave for each mandatory decision group and one wave for
// all other clusters. ProgressivePerGroup has a wave for each group.
package strategy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/rollout"
)

// Group is a decision group of a placement.
type Group struct {
	Name     string
	Index    int32
	Clusters []string
}

// Groups reads decision groups from the decisions of one placement.
func Groups(decisions []ocm.PlacementDecision) []Group {
	var groups []Group
	for _, d := range decisions {
		index, _ := strconv.ParseInt(d.Labels[ocm.DecisionGroupIndexLabel], 10, 32)
		name := d.Labels[ocm.DecisionGroupNameLabel]
		i := slices.IndexFunc(groups, func(g Group) bool { return g.Index == int32(index) && g.Name == name })
		if i < 0 {
			i = len(groups)
			groups = append(groups, Group{Name: name, Index: int32(index)})
		}
		for _, c := range d.Status.Decisions {
			groups[i].Clusters = append(groups[i].Clusters, c.ClusterName)
		}
	}
	return groups
}

// Input has everything that a rollout over the clusters of one placement depends on.
type Input struct {
	// Change identifies the content of the rollout.
	Change   string
	Strategy ocm.RolloutStrategy
	// PerGroup is the placement's clustersPerDecisionGroup. It replaces a missing maxConcurrency.
	PerGroup *intstr.IntOrString
	Groups   []Group
	Paused   bool
	// Known has the clusters that have a status. Their Wave and Order are ignored.
	Known []rollout.Target
	// Held has the clusters that wait for something else, including those without a status.
	Held map[string]bool
}

// Plan is a strategy in the terms of package rollout.
type Plan struct {
	Spec    rollout.Spec
	Targets []rollout.Target
	// Removed are the known clusters that the placement no longer selects, in order.
	Removed []rollout.Target
	// Groups tells the group of each cluster.
	Groups map[string]Group
}

// New reads a strategy. It checks all values before anything starts.
func New(in Input) (Plan, error) {
	groups := sorted(in.Groups)
	plan := Plan{Spec: rollout.Spec{Change: in.Change, Paused: in.Paused}, Groups: make(map[string]Group)}
	wave := make(map[string]int)
	for _, g := range groups {
		for _, name := range g.Clusters {
			plan.Groups[name] = g
		}
	}
	total := len(plan.Groups)
	switch in.Strategy.Type {
	case ocm.RolloutAll, "":
		s := cmp.Or(in.Strategy.All, &ocm.RolloutAtOnce{})
		deadline, err := Deadline(s.ProgressDeadline)
		if err != nil {
			return Plan{}, err
		}
		plan.Spec.Deadline = deadline
		plan.Spec.Waves = []rollout.Wave{{Name: "all", MaxFailures: rollout.Amount{Value: 100, Percent: true}}}
	case ocm.RolloutProgressive:
		s := cmp.Or(in.Strategy.Progressive, &ocm.RolloutProgression{})
		if err := plan.configure(s.RolloutConfig); err != nil {
			return Plan{}, err
		}
		failures, err := size("maxFailures", s.MaxFailures, total, 0)
		if err != nil {
			return Plan{}, err
		}
		rest := plan.mandatory(groups, s.MandatoryDecisionGroups, wave)
		atOnce, err := concurrency(cmp.Or(s.MaxConcurrency, in.PerGroup), total-len(wave))
		if err != nil {
			return Plan{}, err
		}
		for _, g := range rest {
			plan.assign(g, wave)
		}
		plan.Spec.Waves = append(plan.Spec.Waves, rollout.Wave{
			Name: "rest", AtOnce: rollout.Amount{Value: atOnce}, MaxFailures: rollout.Amount{Value: failures},
		})
	case ocm.RolloutProgressivePerGroup:
		s := cmp.Or(in.Strategy.ProgressivePerGroup, &ocm.RolloutGroups{})
		if err := plan.configure(s.RolloutConfig); err != nil {
			return Plan{}, err
		}
		if _, err := size("maxFailures", s.MaxFailures, total, 0); err != nil {
			return Plan{}, err
		}
		for _, g := range plan.mandatory(groups, s.MandatoryDecisionGroups, wave) {
			failures, _ := size("maxFailures", s.MaxFailures, len(g.Clusters), 0)
			plan.assign(g, wave)
			plan.Spec.Waves = append(plan.Spec.Waves, rollout.Wave{Name: label(g), MaxFailures: rollout.Amount{Value: failures}})
		}
	default:
		return Plan{}, fmt.Errorf("rollout strategy type %q must be All, Progressive or ProgressivePerGroup", in.Strategy.Type)
	}
	plan.target(in, wave)
	return plan, nil
}

// sorted orders groups by index and their clusters by name. A cluster counts in its first group.
func sorted(groups []Group) []Group {
	groups = slices.Clone(groups)
	slices.SortStableFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Name, b.Name))
	})
	seen := make(map[string]bool)
	for i, g := range groups {
		var clusters []string
		for _, name := range g.Clusters {
			if !seen[name] {
				clusters = append(clusters, name)
			}
			seen[name] = true
		}
		slices.Sort(clusters)
		groups[i].Clusters = clusters
	}
	return groups
}

func (p *Plan) configure(c ocm.RolloutConfig) (err error) {
	p.Spec.Soak = max(0, c.MinSuccessTime.Duration)
	p.Spec.Deadline, err = Deadline(c.ProgressDeadline)
	return err
}

// mandatory makes a wave for each mandatory group, by index, and returns the other groups.
func (p *Plan) mandatory(groups []Group, keys []ocm.MandatoryDecisionGroup, wave map[string]int) (rest []Group) {
	for _, g := range groups {
		if !slices.ContainsFunc(keys, func(k ocm.MandatoryDecisionGroup) bool {
			return k.GroupName != "" && k.GroupName == g.Name || k.GroupName == "" && k.GroupIndex == g.Index
		}) {
			rest = append(rest, g)
			continue
		}
		p.assign(g, wave)
		p.Spec.Waves = append(p.Spec.Waves, rollout.Wave{Name: label(g), Mandatory: true})
	}
	return rest
}

// assign puts the clusters of a group into the wave that is appended next.
func (p *Plan) assign(g Group, wave map[string]int) {
	for _, name := range g.Clusters {
		wave[name] = len(p.Spec.Waves)
	}
}

// label names a group for people.
func label(g Group) string {
	if g.Name != "" {
		return g.Name
	}
	return fmt.Sprintf("group %d", g.Index)
}

// target joins the clusters of the placement with their state. Clusters in work go first. Of those that wait, Progressive
// starts those that have a status before the others (O-21).
func (p *Plan) target(in Input, wave map[string]int) {
	left := maps.Clone(p.Groups)
	for _, t := range in.Known {
		if _, selected := p.Groups[t.Name]; !selected {
			p.Removed = append(p.Removed, t)
			continue
		}
		delete(left, t.Name)
		t.Wave, t.Order, t.Held = wave[t.Name], 0, in.Held[t.Name]
		if t.Status == rollout.Waiting && in.Strategy.Type == ocm.RolloutProgressivePerGroup {
			t.Order = 1
		}
		p.Targets = append(p.Targets, t)
	}
	for name := range left {
		p.Targets = append(p.Targets, rollout.Target{Name: name, Wave: wave[name], Order: 1, Status: rollout.Waiting, Held: in.Held[name]})
	}
	slices.SortFunc(p.Removed, func(a, b rollout.Target) int { return cmp.Compare(a.Name, b.Name) })
}

// Decide asks package rollout for the decisions of the plan.
func (p Plan) Decide(state rollout.State, now time.Time) (rollout.Result, error) {
	return rollout.Decide(p.Spec, p.Targets, state, now)
}
