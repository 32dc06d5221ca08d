package control

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/placement"
)

// sets creates the default sets.
func (c *controllers) sets() error {
	return c.hub.Add(leaderTask(func(ctx context.Context) error {
		for name, selector := range map[string]ocm.SetSelector{
			ocm.DefaultClusterSet: {SelectorType: ocm.ExclusiveClusterSetLabel},
			"global":              {SelectorType: ocm.LabelSelector, LabelSelector: &metav1.LabelSelector{}},
		} {
			set := &ocm.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: ocm.ManagedClusterSetSpec{ClusterSelector: selector}}
			err := c.Get(ctx, client.ObjectKeyFromObject(set), &ocm.ManagedClusterSet{})
			if apierrors.IsNotFound(err) {
				err = c.Create(ctx, set)
			}
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
		return nil
	}))
}

// leaderTask runs once on the hub that decides.
type leaderTask func(context.Context) error

// Start runs the task.
func (t leaderTask) Start(ctx context.Context) error { return t(ctx) }

// setConditions reports whether sets have clusters, and whether bindings have sets.
func (c *controllers) setConditions() error {
	sets, bindings := soon(every[ocm.ManagedClusterSet](c.Client)), soon(every[ocm.ManagedClusterSetBinding](c.Client))
	err := builder.ControllerManagedBy(c.hub).Named("set").
		For(&ocm.ManagedClusterSet{}).
		Watches(&ocm.ManagedCluster{}, sets, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Complete(retryOnConflict(reconcile.Func(c.reportSet)))
	if err != nil {
		return err
	}
	return builder.ControllerManagedBy(c.hub).Named("binding").
		For(&ocm.ManagedClusterSetBinding{}).
		Watches(&ocm.ManagedClusterSet{}, bindings, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(retryOnConflict(reconcile.Func(c.reportBinding)))
}

func (c *controllers) reportSet(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var set ocm.ManagedClusterSet
	if err := c.Get(ctx, req.NamespacedName, &set); err != nil || !set.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var clusters ocm.List[ocm.ManagedCluster]
	if err := c.List(ctx, &clusters, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, err
	}
	after, condition := copyOf(&set), placement.Emptiness(set, clusters.Items)
	c.set(&after.Status.Conditions, condition.Type, condition.Status, condition.Reason, condition.Message)
	return reconcile.Result{}, client.IgnoreNotFound(c.patchStatus(ctx, &set, after))
}

func (c *controllers) reportBinding(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var binding ocm.ManagedClusterSetBinding
	if err := c.Get(ctx, req.NamespacedName, &binding); err != nil || !binding.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var sets ocm.List[ocm.ManagedClusterSet]
	if err := c.List(ctx, &sets); err != nil {
		return reconcile.Result{}, err
	}
	after, condition := copyOf(&binding), placement.Boundness(binding, sets.Items)
	c.set(&after.Status.Conditions, condition.Type, condition.Status, condition.Reason, condition.Message)
	return reconcile.Result{}, client.IgnoreNotFound(c.patchStatus(ctx, &binding, after))
}
