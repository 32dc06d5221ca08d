package placement

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sealift/sealift/fleet/ocm"
)

// Scores are the scores that one prioritizer gives to clusters.
type Scores struct {
	Name   string
	Weight int32
	Scores map[string]int64
}

// prioritizer gives each cluster a score between -100 and 100. Its warning names what it left out.
type prioritizer func(p *ocm.Placement, clusters []*ocm.ManagedCluster, mine map[string]bool, known Known) (scores map[string]int64, warning string)

// builtIn are the named prioritizers (O-41, X-19).
var builtIn = map[string]prioritizer{
	"Balance":                   balance,
	"Steady":                    steady,
	"ResourceAllocatableCPU":    allocatable("cpu"),
	"ResourceAllocatableMemory": allocatable("memory"),
}

// score runs the prioritizers of the placement and returns the weighted sum for each cluster.
func (r *Result) score(p *ocm.Placement, clusters []*ocm.ManagedCluster, mine map[string]bool, known Known) (map[string]int64, error) {
	weights, err := weigh(p.Spec.PrioritizerPolicy)
	if err != nil {
		return nil, err
	}
	sums := make(map[string]int64)
	for _, w := range weights {
		if w.weight == 0 {
			continue
		}
		scores, warning := w.run(p, clusters, mine, known)
		if warning != "" {
			r.Warnings = append(r.Warnings, warning)
		}
		r.Scores = append(r.Scores, Scores{Name: w.name, Weight: w.weight, Scores: scores})
		for name, score := range scores {
			sums[name] += score * int64(w.weight)
		}
	}
	return sums, nil
}

type weighted struct {
	name   string
	weight int32
	run    prioritizer
}

// weigh returns the prioritizers of a policy, sorted by name. Additive keeps the defaults that it does not name.
func weigh(policy ocm.PrioritizerPolicy) ([]weighted, error) {
	var list []weighted
	switch policy.Mode {
	case ocm.PrioritizersAdditive, "":
		list = []weighted{{"Balance", 1, balance}, {"Steady", 1, steady}}
	case ocm.PrioritizersExact:
	default:
		return nil, fmt.Errorf("incorrect prioritizer policy mode: %s", policy.Mode)
	}
	for _, c := range policy.Configurations {
		at := c.ScoreCoordinate
		w := weighted{weight: c.Weight}
		switch {
		case at == nil:
			return nil, errors.New("scoreCoordinate field is required")
		case at.Type == ocm.ScoreBuiltIn || at.Type == "":
			w.name, w.run = at.BuiltIn, builtIn[at.BuiltIn]
			if w.run == nil {
				return nil, fmt.Errorf("incorrect builtin prioritizer: %s", at.BuiltIn)
			}
		case at.AddOn == nil:
			return nil, errors.New("addOn should not be empty")
		default:
			w.name = "AddOn/" + at.AddOn.ResourceName + "/" + at.AddOn.ScoreName
			w.run = addOn(*at.AddOn)
		}
		list = slices.DeleteFunc(list, func(l weighted) bool { return l.name == w.name })
		list = append(list, w)
	}
	slices.SortFunc(list, func(a, b weighted) int { return strings.Compare(a.name, b.name) })
	return list, nil
}

// balance prefers clusters that other placements select less.
func balance(p *ocm.Placement, clusters []*ocm.ManagedCluster, _ map[string]bool, known Known) (map[string]int64, string) {
	count, most := make(map[string]int64), int64(0)
	for _, d := range known.Decisions {
		if d.Namespace == p.Namespace && d.Labels[ocm.PlacementLabel] == p.Name {
			continue
		}
		for _, c := range d.Status.Decisions {
			count[c.ClusterName]++
			most = max(most, count[c.ClusterName])
		}
	}
	scores := make(map[string]int64)
	for _, c := range clusters {
		scores[c.Name] = 100
		if n := count[c.Name]; n > 0 {
			scores[c.Name] = 2 * int64(100*(0.5-float64(n)/float64(most)))
		}
	}
	return scores, ""
}

// steady prefers clusters that the placement has already selected.
func steady(_ *ocm.Placement, clusters []*ocm.ManagedCluster, mine map[string]bool, _ Known) (map[string]int64, string) {
	scores := make(map[string]int64)
	for _, c := range clusters {
		scores[c.Name] = 0
		if mine[c.Name] {
			scores[c.Name] = 100
		}
	}
	return scores, ""
}

// allocatable prefers clusters with more of a resource. A cluster that does not report it has no score.
func allocatable(name string) prioritizer {
	return func(_ *ocm.Placement, clusters []*ocm.ManagedCluster, _ map[string]bool, _ Known) (map[string]int64, string) {
		has := make(map[string]float64)
		least, most := 0.0, 0.0
		for _, c := range clusters {
			q, found := c.Status.Allocatable[name]
			if !found {
				continue
			}
			x := amount(q)
			if len(has) == 0 {
				least, most = x, x
			}
			has[c.Name], least, most = x, min(least, x), max(most, x)
		}
		scores := make(map[string]int64)
		for cluster, x := range has {
			scores[cluster] = 100
			if most > least {
				scores[cluster] = int64(((x-least)/(most-least) - 0.5) * 2 * 100)
			}
		}
		return scores, ""
	}
}

func amount(q resource.Quantity) float64 { return q.AsApproximateFloat64() }

// addOn reads the scores that an add-on reports. One that is missing or too old is 0.
func addOn(want ocm.AddOnScore) prioritizer {
	return func(_ *ocm.Placement, clusters []*ocm.ManagedCluster, _ map[string]bool, known Known) (map[string]int64, string) {
		reports := make(map[string]ocm.AddOnPlacementScore)
		for _, s := range known.Scores {
			if s.Name == want.ResourceName {
				reports[s.Namespace] = s
			}
		}
		scores := make(map[string]int64)
		var expired []string
		for _, c := range clusters {
			scores[c.Name] = 0
			report, found := reports[c.Name]
			if !found {
				continue
			}
			if stale(report, known) {
				expired = append(expired, report.Namespace+"/"+report.Name)
				continue
			}
			for _, s := range report.Status.Scores {
				if s.Name == want.ScoreName {
					scores[c.Name] = int64(s.Value)
				}
			}
		}
		if len(expired) == 0 {
			return scores, ""
		}
		return scores, fmt.Sprintf("AddOnPlacementScores %s expired", strings.Join(expired, " "))
	}
}

func stale(s ocm.AddOnPlacementScore, known Known) bool {
	return s.Status.ValidUntil != nil && known.Now.After(s.Status.ValidUntil.Time)
}
