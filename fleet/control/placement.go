package control

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/placement"
)

// placements keeps the decisions of all Placements (O-39 to O-44).
func (c *controllers) placements() error {
	all := soon(every[ocm.Placement](c.Client))
	specs := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	return builder.ControllerManagedBy(c.hub).Named("placement").
		For(&ocm.Placement{}).
		Owns(&ocm.PlacementDecision{}).
		Watches(&ocm.ManagedCluster{}, all).
		Watches(&ocm.ManagedClusterSet{}, all, specs).
		Watches(&ocm.ManagedClusterSetBinding{}, all, specs).
		Watches(&ocm.AddOnPlacementScore{}, all).
		Complete(retryOnConflict(reconcile.Func(c.place)))
}

// choice has everything that the decisions of a placement depend on. Clusters and scores are shared with the cache.
type choice struct {
	sets       ocm.List[ocm.ManagedClusterSet]
	bindings   ocm.List[ocm.ManagedClusterSetBinding]
	clusters   ocm.List[ocm.ManagedCluster]
	decisions  ocm.List[ocm.PlacementDecision]
	scores     ocm.List[ocm.AddOnPlacementScore]
	candidates []*ocm.ManagedCluster
	counts     placement.Counts
}

func (c *controllers) observe(ctx context.Context, p *ocm.Placement) (*choice, error) {
	s := &choice{}
	err := errors.Join(c.List(ctx, &s.sets), c.List(ctx, &s.bindings, client.InNamespace(p.Namespace)), c.List(ctx, &s.clusters, client.UnsafeDisableDeepCopy),
		c.List(ctx, &s.decisions), c.List(ctx, &s.scores, client.UnsafeDisableDeepCopy))
	if err != nil {
		return nil, err
	}
	bound := placement.Bound(p.Namespace, s.bindings.Items, s.sets.Items)
	eligible := placement.Eligible(bound, p.Spec.ClusterSets)
	var clusters []*ocm.ManagedCluster
	for i := range s.clusters.Items {
		if s.clusters.Items[i].Spec.HubAcceptsClient { // a placement may tolerate all taints
			clusters = append(clusters, &s.clusters.Items[i])
		}
	}
	s.candidates, err = placement.Candidates(eligible, s.sets.Items, clusters)
	s.counts = placement.Counts{InSpec: p.Spec.ClusterSets, Eligible: eligible, Bindings: len(bound), Available: len(s.candidates)}
	return s, err
}

func (c *controllers) place(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var p ocm.Placement
	if err := c.Get(ctx, req.NamespacedName, &p); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !p.DeletionTimestamp.IsZero() || p.Annotations[ocm.SchedulingDisabled] == "true" {
		return reconcile.Result{}, nil
	}
	s, err := c.observe(ctx, &p)
	if err != nil {
		return reconcile.Result{}, err
	}
	now := c.now()
	after := copyOf(&p)
	result, err := placement.Schedule(&p, s.candidates, placement.Known{Now: now, Decisions: s.decisions.Items, Scores: s.scores.Items})
	var decisions []ocm.PlacementDecision
	if err == nil {
		decisions, after.Status.DecisionGroups, err = placement.Group(&p, result.Selected)
	}
	var mistake *placement.Misconfigured
	if err != nil && !errors.As(err, &mistake) {
		return reconcile.Result{}, err
	}
	condition := placement.Misconfiguration(mistake)
	c.set(&after.Status.Conditions, condition.Type, condition.Status, condition.Reason, condition.Message)
	if mistake == nil { // otherwise the last decisions stay
		if err := c.decide(ctx, &p, s.decisions.Items, decisions); err != nil {
			return reconcile.Result{}, err
		}
		s.counts.Feasible, s.counts.Unscheduled = len(result.Filtered[len(result.Filtered)-1].Clusters), result.Unscheduled
		after.Status.NumberOfSelectedClusters = int32(len(result.Selected))
		condition = placement.Satisfaction(s.counts)
		c.set(&after.Status.Conditions, condition.Type, condition.Status, condition.Reason, condition.Message)
	}
	again := reconcile.Result{}
	if !result.Again.IsZero() {
		again.RequeueAfter = max(time.Second, result.Again.Sub(now))
	}
	return again, c.patchStatus(ctx, &p, after)
}
