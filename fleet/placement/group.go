package placement

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sealift/sealift/fleet/ocm"
)

// perDecision is how many clusters a PlacementDecision has at most.
const perDecision = 100

// Group puts the selected clusters into decision groups, and these into decisions (O-42, O-43). A mistake in the groups
// is a *Misconfigured.
func Group(p *ocm.Placement, selected []*ocm.ManagedCluster) ([]ocm.PlacementDecision, []ocm.DecisionGroupStatus, error) {
	strategy := p.Spec.DecisionStrategy.GroupStrategy
	size, err := groupSize(strategy.ClustersPerDecisionGroup, len(selected))
	if err != nil {
		return nil, nil, &Misconfigured{Text: err.Error()}
	}
	type group struct {
		name     string
		clusters []string
	}
	var groups []group
	left := slices.Clone(selected)
	if p.Spec.SortBy != "Score" {
		slices.SortFunc(left, func(a, b *ocm.ManagedCluster) int { return strings.Compare(a.Name, b.Name) })
	}
	divide := func(name string, matches func(*ocm.ManagedCluster) bool) {
		var members []string
		left = slices.DeleteFunc(left, func(c *ocm.ManagedCluster) bool {
			if matches(c) {
				members = append(members, c.Name)
				return true
			}
			return false
		})
		for chunk := range slices.Chunk(members, max(1, size)) {
			groups = append(groups, group{name, chunk})
		}
	}
	for _, g := range strategy.DecisionGroups {
		s, err := compile(ocm.ClusterSelector{
			LabelSelector: g.GroupClusterSelector.LabelSelector, ClaimSelector: g.GroupClusterSelector.ClaimSelector,
		}, Known{})
		if err != nil {
			return nil, nil, &Misconfigured{Text: fmt.Sprintf("decision group %s: %v", g.GroupName, err)}
		}
		divide(g.GroupName, s.matches)
	}
	divide("", func(*ocm.ManagedCluster) bool { return true })
	if len(groups) == 0 {
		groups = []group{{}}
	}
	var decisions []ocm.PlacementDecision
	var statuses []ocm.DecisionGroupStatus
	for i, g := range groups {
		status := ocm.DecisionGroupStatus{DecisionGroupIndex: int32(i), DecisionGroupName: g.name, ClusterCount: int32(len(g.clusters))}
		for first := 0; first == 0 || first < len(g.clusters); first += perDecision {
			d := newDecision(p, len(decisions)+1, i, g.name, g.clusters[first:min(first+perDecision, len(g.clusters))])
			decisions, status.Decisions = append(decisions, d), append(status.Decisions, d.Name)
		}
		statuses = append(statuses, status)
	}
	return decisions, statuses, nil
}

// newDecision makes the n-th decision of a placement.
func newDecision(p *ocm.Placement, n, group int, name string, clusters []string) ocm.PlacementDecision {
	d := ocm.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("%s-decision-%d", p.Name, n), Namespace: p.Namespace,
		Labels: map[string]string{
			ocm.PlacementLabel: p.Name, ocm.DecisionGroupIndexLabel: strconv.Itoa(group), ocm.DecisionGroupNameLabel: name,
		},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "cluster.open-cluster-management.io/v1beta1", Kind: "Placement", Name: p.Name, UID: p.UID,
			Controller: new(true), BlockOwnerDeletion: new(true),
		}},
	}}
	d.Status.Decisions = []ocm.ClusterDecision{}
	for _, c := range clusters {
		d.Status.Decisions = append(d.Status.Decisions, ocm.ClusterDecision{ClusterName: c})
	}
	return d
}

// groupSize reads clustersPerDecisionGroup. A percentage is rounded up, and a result that is not between 1 and total means
// total.
func groupSize(value intstr.IntOrString, total int) (int, error) {
	n := int(value.IntVal)
	if value.Type == intstr.String {
		number, percent := strings.CutSuffix(value.StrVal, "%")
		f, err := strconv.ParseFloat(number, 64)
		if !percent || err != nil || math.IsNaN(f) {
			return 0, fmt.Errorf("%s invalid type: string is not a percentage", value.StrVal)
		}
		n = int(math.Ceil(min(f, 100) / 100 * float64(total)))
	}
	if n <= 0 || n > total {
		return total, nil
	}
	return n, nil
}
