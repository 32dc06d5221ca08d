package control

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sealift/sealift/fleet/deploy"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/relation"
)

// contest reports whether an add-on wants an object of another owner, and sets condition Conflict. The works of such an add-on
// are not changed. Two add-ons that are created at the same moment may both write their works. Then the agent applies the
// object for one of them, and reports the other.
func (r *clusterAddOns) contest(ctx context.Context, p place, plan deploy.Plan) (contested bool, err error) {
	others, err := r.othersOn(ctx, p, plan)
	if err != nil {
		return false, err
	}
	conditions := &p.addOn.Status.Conditions
	if contests := relation.Contests(slices.Concat(plan.Works, plan.Hooks), p.works, others); len(contests) > 0 {
		r.set(conditions, relation.Conflict, "True", relation.OwnedByOthers, relation.Message(contests))
		return true, nil
	}
	if reported := relation.Reported(p.works); reported != "" {
		r.set(conditions, relation.Conflict, "True", relation.OwnedByOthers, reported)
		return false, nil // the agent applies all else
	}
	meta.RemoveStatusCondition(conditions, relation.Conflict)
	return false, nil
}

// othersOn returns the works of others on the clusters of an add-on.
func (r *clusterAddOns) othersOn(ctx context.Context, p place, plan deploy.Plan) ([]ocm.ManifestWork, error) {
	var others []ocm.ManifestWork
	var looked []string
	for _, w := range slices.Concat(plan.Works, plan.Hooks) {
		if slices.Contains(looked, w.Namespace) {
			continue
		}
		looked = append(looked, w.Namespace)
		var list ocm.List[ocm.ManifestWork]
		if err := r.List(ctx, &list, client.InNamespace(w.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
		others = append(others, list.Items...)
	}
	a := p.addOn
	return slices.DeleteFunc(others, func(o ocm.ManifestWork) bool {
		return o.Labels[ocm.AddOnLabel] == a.Name && cmp.Or(o.Labels[ocm.AddOnNamespaceLabel], o.Namespace) == a.Namespace
	}), nil
}

// contesting returns the add-ons on a cluster, or with an agent there, that want a foreign object.
func (r *clusterAddOns) contesting(ctx context.Context, cluster string) (requests []reconcile.Request) {
	for _, option := range []client.ListOption{client.InNamespace(cluster), client.MatchingFields{hostedBy: cluster}} {
		var list ocm.List[ocm.ManagedClusterAddOn]
		if err := r.List(ctx, &list, option, client.UnsafeDisableDeepCopy); err != nil {
			continue // the cache answers all lists until the hub ends
		}
		for i := range list.Items {
			if a := &list.Items[i]; meta.IsStatusConditionTrue(a.Status.Conditions, relation.Conflict) {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(a)})
			}
		}
	}
	return requests
}
