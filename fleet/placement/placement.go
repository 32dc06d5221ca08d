// Package placement selects clusters for OCM's Placements (O-39 to O-44, X-13, X-18 to X-20). It is pure: Schedule takes a
// placement, clusters and their state, and returns decisions in groups.
package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/fleet/ocm"
)

// Known has the other inputs of a decision, besides the placement and its candidates.
type Known struct {
	Now time.Time
	// Decisions are those of all placements. They are found by their label and namespace.
	Decisions []ocm.PlacementDecision
	Scores    []ocm.AddOnPlacementScore
}

// Misconfigured is a mistake in a placement. The last decisions of the placement stay.
type Misconfigured struct {
	// Plugin is the part that found it: Predicate, TaintToleration, or "" for prioritizers and groups.
	Plugin string
	Text   string
}

func (m *Misconfigured) Error() string { return m.Plugin + ":" + m.Text }

// Result is the result of Schedule.
type Result struct {
	// Filtered has the clusters that passed the filters so far, by filter, in order.
	Filtered []Filter
	// Scores has the scores of each prioritizer, in the order of their names.
	Scores []Scores
	// Selected are the chosen clusters, the best first.
	Selected []*ocm.ManagedCluster
	// Unscheduled is how many clusters are missing from the number that the placement wants.
	Unscheduled int
	// Again is when a toleration ends. Zero means never.
	Again time.Time
	// Warnings name what was left out of the scores.
	Warnings []string
}

// Filter is the result of the filters up to a named one, such as "Predicate,TaintToleration".
type Filter struct {
	Name     string
	Clusters []*ocm.ManagedCluster
}

// Schedule selects clusters from the candidates. An error is a *Misconfigured.
func Schedule(p *ocm.Placement, candidates []*ocm.ManagedCluster, known Known) (Result, error) {
	var r Result
	var names []string
	left := slices.Clone(candidates)
	mine := decided(p, known.Decisions)
	for _, f := range []struct {
		name string
		keep func([]*ocm.ManagedCluster) ([]*ocm.ManagedCluster, error)
	}{
		{"Predicate", func(list []*ocm.ManagedCluster) ([]*ocm.ManagedCluster, error) { return match(p, list, known) }},
		{"TaintToleration", func(list []*ocm.ManagedCluster) ([]*ocm.ManagedCluster, error) {
			return tolerate(p.Spec.Tolerations, list, mine, known.Now)
		}},
	} {
		var err error
		if left, err = f.keep(left); err != nil {
			return r, &Misconfigured{Plugin: f.name, Text: err.Error()}
		}
		names = append(names, f.name)
		r.Filtered = append(r.Filtered, Filter{Name: strings.Join(names, ","), Clusters: left})
	}
	sums, err := r.score(p, left, mine, known)
	if err != nil {
		return r, &Misconfigured{Text: err.Error()}
	}
	r.Selected = slices.Clone(left)
	slices.SortFunc(r.Selected, func(a, b *ocm.ManagedCluster) int {
		return cmp.Or(cmp.Compare(sums[b.Name], sums[a.Name]), cmp.Compare(a.Name, b.Name))
	})
	if n := p.Spec.NumberOfClusters; n != nil {
		r.Selected = r.Selected[:min(max(0, int(*n)), len(r.Selected))]
		r.Unscheduled = int(*n) - len(r.Selected)
	}
	r.Again = toleratedUntil(p.Spec.Tolerations, candidates, mine, known.Now)
	return r, nil
}

// decided returns the clusters of the placement's decisions.
func decided(p *ocm.Placement, decisions []ocm.PlacementDecision) map[string]bool {
	names := make(map[string]bool)
	for _, d := range decisions {
		if d.Namespace == p.Namespace && d.Labels[ocm.PlacementLabel] == p.Name {
			for _, c := range d.Status.Decisions {
				names[c.ClusterName] = true
			}
		}
	}
	return names
}

// Condition is a condition of a placement without its time.
type Condition struct{ Type, Status, Reason, Message string }

// Misconfiguration returns condition PlacementMisconfigured.
func Misconfiguration(m *Misconfigured) Condition {
	if m != nil {
		return Condition{"PlacementMisconfigured", "True", "Misconfigured", m.Error()}
	}
	return Condition{"PlacementMisconfigured", "False", "Succeedconfigured", "Placement configurations check pass"}
}

// Counts has the numbers that condition PlacementSatisfied depends on.
type Counts struct {
	// InSpec are the sets that the placement names, and Eligible those that it may use.
	InSpec, Eligible []string
	// Bindings, Available and Feasible count bindings, candidates, and candidates that passed all filters.
	Bindings, Available, Feasible int
	Unscheduled                   int
}

// Satisfaction returns condition PlacementSatisfied (O-44, X-13).
func Satisfaction(n Counts) Condition {
	no := func(reason, format string, args ...any) Condition {
		return Condition{"PlacementSatisfied", "False", reason, fmt.Sprintf(format, args...)}
	}
	switch {
	case n.Bindings == 0:
		return no("NoManagedClusterSetBindings", "No valid ManagedClusterSetBindings found in placement namespace")
	case len(n.Eligible) == 0:
		return no("NoIntersection", "None of ManagedClusterSets [%s] is bound to placement namespace", strings.Join(n.InSpec, ","))
	case n.Available == 0:
		return no("AllManagedClusterSetsEmpty", "All ManagedClusterSets [%s] have no member ManagedCluster", strings.Join(n.Eligible, ","))
	case n.Feasible == 0:
		return no("NoManagedClusterMatched", "No ManagedCluster matches any of the cluster predicate")
	case n.Unscheduled != 0:
		return no("NotAllDecisionsScheduled", "%d cluster decisions unscheduled", n.Unscheduled)
	}
	return Condition{"PlacementSatisfied", "True", "AllDecisionsScheduled", "All cluster decisions scheduled"}
}
