package control

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sealift/sealift/fleet/deploy"
	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/ocm"
)

// hookDeadline is how long an add-on that is deleted waits for its hooks.
const hookDeadline = 10 * time.Minute

// remove lets an add-on that is deleted go once its hooks have run (O-30, O-31). It does not wait for a removed cluster, or if a user
// says so. It waits until the deadline for hooks that do not end, and forever for hooks that fail: they run again.
func (r *clusterAddOns) remove(ctx context.Context, p place) (reconcile.Result, error) {
	a := p.addOn
	if !slices.ContainsFunc(a.Finalizers, func(f string) bool { return strings.HasPrefix(f, ocm.AddOnVersion.Group+"/") }) {
		return reconcile.Result{}, nil
	}
	left := a.DeletionTimestamp.Add(hookDeadline).Sub(r.now())
	s := deploy.State{AddOn: a, Existing: p.works, Hosting: p.hosting, Gone: p.gone, Now: r.now()}
	again := min(max(left, settle), deploy.HookPause)
	if deploy.HookFailed(a) { // it is reported, and can be repaired
		left, again = hookDeadline, deploy.HookPause
	}
	if p.cluster != nil && inventory.IsOccasional(p.cluster) { // it runs its hooks when it is in contact
		left, again = hookDeadline, 0
	}
	s.Abandon = left <= 0 || a.Annotations[inventory.ForceDelete] == "true"
	if !s.Abandon {
		switch agent, err := r.render(ctx, p); {
		case err != nil:
			s.Failed = err
		case agent == nil:
			s.Failed = errors.New("the AddOnTemplate or its configuration has changed or is gone")
		default:
			s.Plan = agent.plan
		}
	}
	next := deploy.Next(s)
	if _, err := r.write(ctx, p.works, next); err != nil {
		return reconcile.Result{}, err
	}
	after := copyOf(a)
	for _, c := range next.Conditions {
		r.set(&after.Status.Conditions, c.Type, string(c.Status), c.Reason, c.Message)
	}
	if err := r.patchStatus(ctx, a, after); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !slices.Equal(next.Finalizers, a.Finalizers) {
		r.log.InfoContext(ctx, "an add-on goes", "cluster", a.Namespace, "addon", a.Name, "clusterGone", p.gone, "hooksAbandoned", s.Abandon, "waitsFor", next.Finalizers)
		marked := copyOf(after)
		marked.Finalizers = next.Finalizers
		return reconcile.Result{}, client.IgnoreNotFound(r.patch(ctx, after, marked))
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// deleteWork deletes a work. If its cluster is gone, nobody else removes the finalizer.
func (c *controllers) deleteWork(ctx context.Context, w *ocm.ManifestWork) error {
	if w.DeletionTimestamp.IsZero() {
		if err := c.Delete(ctx, w); err != nil {
			return client.IgnoreNotFound(err)
		}
		c.outdated.gone(w)
	}
	err := c.Get(ctx, types.NamespacedName{Name: w.Namespace}, &ocm.ManagedCluster{})
	if !apierrors.IsNotFound(err) || len(w.Finalizers) == 0 {
		return client.IgnoreNotFound(err)
	}
	after := copyOf(w)
	after.Finalizers = nil
	return client.IgnoreNotFound(c.Patch(ctx, after, client.MergeFrom(w)))
}

// clean deletes the works of an add-on that is gone: those that it owned, and those on the cluster that hosted its agent. It
// revokes the rights of its agent.
func (r *clusterAddOns) clean(ctx context.Context, addOn types.NamespacedName) error {
	gone := &ocm.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: addOn.Namespace, Name: addOn.Name}}
	works, err := r.works(ctx, gone)
	errs := []error{err, r.revoke(ctx, gone, nil), r.cleanLeases(ctx, gone)}
	for i := range works {
		w := &works[i]
		owner := metav1.GetControllerOf(w)
		owned := owner != nil && owner.Kind == "ManagedClusterAddOn" && owner.Name == addOn.Name
		if owned || w.Labels[ocm.AddOnNamespaceLabel] == addOn.Namespace {
			errs = append(errs, r.deleteWork(ctx, w))
		}
	}
	return errors.Join(errs...)
}
