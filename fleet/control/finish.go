package control

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sealift/sealift/fleet/ocm"
)

// finishes deletes works some time after they are complete, if they request that. The works of add-ons stay: the hub would
// recreate them.
func (c *controllers) finishes() error {
	ends := predicate.NewPredicateFuncs(func(o client.Object) bool {
		work, ok := o.(*ocm.ManifestWork)
		return ok && lifeAfter(work) != nil
	})
	b := builder.ControllerManagedBy(c.hub).Named("finish").For(&ocm.ManifestWork{}, builder.WithPredicates(ends))
	return c.sharded(b, reconcile.Func(c.finishOne), every[ocm.ManifestWork](c.Client))
}

// lifeAfter returns how many seconds a work stays after it is complete, or nil if it stays.
func lifeAfter(work *ocm.ManifestWork) *int64 {
	if work.Spec.DeleteOption == nil || work.Labels[ocm.AddOnLabel] != "" {
		return nil
	}
	return work.Spec.DeleteOption.TTLSecondsAfterFinished
}

func (c *controllers) finishOne(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var work ocm.ManifestWork
	if err := c.Get(ctx, req.NamespacedName, &work); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	seconds, complete := lifeAfter(&work), meta.FindStatusCondition(work.Status.Conditions, ocm.Complete)
	if seconds == nil || complete == nil || complete.Status != metav1.ConditionTrue || !work.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	if complete.ObservedGeneration != work.Generation { // its former content was complete
		return reconcile.Result{}, nil
	}
	left := complete.LastTransitionTime.Add(time.Duration(*seconds) * time.Second).Sub(c.now())
	if left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	uid := work.UID
	return reconcile.Result{}, client.IgnoreNotFound(c.Delete(ctx, &work, client.Preconditions{UID: &uid}))
}
