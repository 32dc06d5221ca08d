package placement

import (
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
		c.cel, err = compileCEL(s.CelSelector.CelExpressions, known)
	}
	return c, err
}

func (s *selector) matches(c *ocm.ManagedCluster) bool {
	return s.labels.Matches(labels.Set(c.Labels)) && s.claims.Matches(claims(c)) && (s.cel == nil || s.cel.match(c, expression.Budget))
}

// claims makes labels of a cluster's claims. Their values may be longer than those of labels.
func claims(c *ocm.ManagedCluster) labels.Set {
	set := make(labels.Set, len(c.Status.ClusterClaims))
	for _, claim := range c.Status.ClusterClaims {
		set[claim.Name] = claim.Value
	}
	return set
}

// match keeps the clusters that match any predicate. Without predicates it keeps all (O-39).
func match(p *ocm.Placement, clusters []*ocm.ManagedCluster, known Known) ([]*ocm.ManagedCluster, error) {
	var selectors []*selector
	for _, predicate := range p.Spec.Predicates {
		s, err := compile(predicate.RequiredClusterSelector, known)
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
			if s.matches(c) {
				kept = append(kept, c)
				break
			}
		}
	}
	return kept, nil
}
