package control

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/ocm"
)

// decide writes the wanted decisions of a placement. First all decisions gain clusters, then they lose clusters: between two
// writes, a cluster that stays selected is in two decisions rather than in none, since an add-on is removed from a cluster that is
// in none. Readers count a cluster in its first group.
func (c *controllers) decide(ctx context.Context, p *ocm.Placement, cached, want []ocm.PlacementDecision) error {
	if decided(decisionsOf(p, cached), want) {
		return nil
	}
	// A cache that is late may show a cluster in a decision that lost it. Dropping it elsewhere would leave it in none.
	var live ocm.List[ocm.PlacementDecision]
	if err := c.direct.List(ctx, &live, client.InNamespace(p.Namespace), client.MatchingLabels{ocm.PlacementLabel: p.Name}); err != nil {
		return err
	}
	has := decisionsOf(p, live.Items)
	for i := range want {
		if err := c.widen(ctx, has, &want[i]); err != nil {
			return err
		}
	}
	for i := range want {
		w := &want[i]
		d := has[w.Name]
		delete(has, w.Name)
		// The label of an earlier group comes after the clusters: see widen.
		if err := c.listClusters(ctx, d, w.Status.Decisions); err != nil {
			return err
		}
		if err := c.labelDecision(ctx, d, w); err != nil {
			return err
		}
	}
	for _, d := range has {
		if err := client.IgnoreNotFound(c.Delete(ctx, d)); err != nil {
			return err
		}
	}
	return nil
}

// decisionsOf returns the decisions of a placement by name.
func decisionsOf(p *ocm.Placement, all []ocm.PlacementDecision) map[string]*ocm.PlacementDecision {
	of := make(map[string]*ocm.PlacementDecision)
	for i, d := range all {
		if d.Namespace == p.Namespace && d.Labels[ocm.PlacementLabel] == p.Name {
			of[d.Name] = &all[i]
		}
	}
	return of
}

// decided reports whether nothing is left to write.
func decided(has map[string]*ocm.PlacementDecision, want []ocm.PlacementDecision) bool {
	return len(has) == len(want) && !slices.ContainsFunc(want, func(w ocm.PlacementDecision) bool {
		d := has[w.Name]
		return d == nil || !maps.Equal(d.Labels, w.Labels) || !slices.Equal(d.Status.Decisions, w.Status.Decisions) ||
			!equality.Semantic.DeepEqual(d.OwnerReferences, w.OwnerReferences)
	})
}

// widen lets a decision have the clusters that it has and those that it gets. Meanwhile it is in the later one of its old and its new
// group. In a rollout, a cluster may then wait a moment longer, but it never starts before its turn.
func (c *controllers) widen(ctx context.Context, has map[string]*ocm.PlacementDecision, w *ocm.PlacementDecision) error {
	d := has[w.Name]
	if d == nil {
		d = copyOf(w)
		d.Status = ocm.PlacementDecisionStatus{}
		if err := c.Create(ctx, d); err != nil {
			return err
		}
		has[w.Name] = d
	}
	if groupIndex(d) <= groupIndex(w) {
		if err := c.labelDecision(ctx, d, w); err != nil {
			return err
		}
	}
	all := slices.Clone(w.Status.Decisions)
	for _, cluster := range d.Status.Decisions {
		if !slices.Contains(all, cluster) {
			all = append(all, cluster)
		}
	}
	if len(all) == len(d.Status.Decisions) {
		return nil // it gains none
	}
	return c.listClusters(ctx, d, all)
}

// groupIndex returns the index of a decision's group.
func groupIndex(d *ocm.PlacementDecision) int {
	index, err := strconv.Atoi(d.Labels[ocm.DecisionGroupIndexLabel])
	if err != nil {
		return 0 // as readers do
	}
	return index
}

// labelDecision writes the labels and the owner of a decision.
func (c *controllers) labelDecision(ctx context.Context, d, w *ocm.PlacementDecision) error {
	before := copyOf(d)
	d.Labels, d.OwnerReferences = w.Labels, w.OwnerReferences
	return c.patch(ctx, before, d)
}

// listClusters writes the clusters of a decision.
func (c *controllers) listClusters(ctx context.Context, d *ocm.PlacementDecision, clusters []ocm.ClusterDecision) error {
	if slices.Equal(d.Status.Decisions, clusters) {
		return nil
	}
	before := copyOf(d)
	d.Status.Decisions = clusters
	return c.patchStatus(ctx, before, d)
}
