package placement

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/sealift/sealift/fleet/expression"
	"github.com/sealift/sealift/fleet/ocm"
)

// selector is a compiled ClusterSelector.
type selector struct {
	labels, claims labels.Selector
	cel            *expressions
}

// compile reads a selector. Empty members select everything.
func compile(s ocm.ClusterSelector, known Known) (*selector, error) {
	return compileIn(s, func() (*cel.Env, error) { return environment(known) })
}

// compileIn is compile with an environment for CEL.
func compileIn(s ocm.ClusterSelector, environment func() (*cel.Env, error)) (*selector, error) {
	byLabel, err := metav1.LabelSelectorAsSelector(&s.LabelSelector)
	if err != nil {
		return nil, err
	}
	byClaim, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: s.ClaimSelector.MatchExpressions})
	if err != nil {
		return nil, err
	}
	c := &selector{labels: byLabel, claims: byClaim}
	if len(s.CelSelector.CelExpressions) > 0 {
		env, err := environment()
		if err != nil {
			return nil, err
		}
		if c.cel, err = compileCEL(s.CelSelector.CelExpressions, env); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (s *selector) matches(c *ocm.ManagedCluster) bool {
	matches, _ := s.cost(c)
	return matches
}

// cost is matches, and returns the cost of CEL.
func (s *selector) cost(c *ocm.ManagedCluster) (matches bool, cost uint64) {
	if !s.labels.Matches(labels.Set(c.Labels)) || !s.claims.Matches(claims(c)) {
		return false, 0
	}
	if s.cel == nil {
		return true, 0
	}
	return s.cel.cost(c, expression.Budget)
}

// claims makes labels of a cluster's claims. Their values may be longer than those of labels.
func claims(c *ocm.ManagedCluster) labels.Set {
	set := make(labels.Set, len(c.Status.ClusterClaims))
	for _, claim := range c.Status.ClusterClaims {
		set[claim.Name] = claim.Value
	}
	return set
}

// passBudget bounds the cost of CEL of one placement for all clusters, and compilation is that of one expression: a pass over all placements
// of all tenants waits for it. It is about ten seconds. 2,000 clusters with a usual expression cost a hundredth.
const passBudget, compilation = 10 * expression.Budget, 10_000

// spend charges a cost to the budget of a pass.
func spend(left *uint64, cost uint64) error {
	if cost > *left {
		return fmt.Errorf("%w by all predicates for all clusters together: use fewer or simpler expressions", expression.ErrCost)
	}
	*left -= cost
	return nil
}

// match keeps the clusters that match any predicate. Without predicates it keeps all (O-39).
func match(p *ocm.Placement, clusters []*ocm.ManagedCluster, known Known) ([]*ocm.ManagedCluster, error) {
	var selectors []*selector
	left := uint64(passBudget)
	env := sync.OnceValues(func() (*cel.Env, error) { return environment(known) })
	for _, predicate := range p.Spec.Predicates {
		if err := spend(&left, uint64(len(predicate.RequiredClusterSelector.CelSelector.CelExpressions))*compilation); err != nil {
			return nil, err
		}
		s, err := compileIn(predicate.RequiredClusterSelector, env)
		if err != nil {
			return nil, err
		}
		selectors = append(selectors, s)
	}
	if len(selectors) == 0 {
		return clusters, nil
	}
	var kept []*ocm.ManagedCluster
	for _, c := range clusters {
		for _, s := range selectors {
			matches, cost := s.cost(c)
			if err := spend(&left, cost); err != nil {
				return nil, err
			}
			if matches {
				kept = append(kept, c)
				break
			}
		}
	}
	return kept, nil
}
