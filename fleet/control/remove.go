package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sealift/sealift/fleet/deploy"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/scene"
)

const (
	hookFinalizer = "addon.open-cluster-management.io/addon-pre-delete"
	// hookDeadline is how long an add-on that is deleted waits for its hooks.
	hookDeadline = 10 * time.Minute
)

// hookFinalizers returns the finalizers of an add-on with or without hooks. Those of earlier versions go.
func hookFinalizers(had []string, hooks bool) []string {
	list := slices.DeleteFunc(slices.Clone(had), func(f string) bool {
		switch f {
		case "cluster.open-cluster-management.io/addon-pre-delete", "cluster.open-cluster-management.io/hosting-addon-pre-delete",
			"cluster.open-cluster-management.io/hosting-manifests-cleanup":
			return true
		}
		return f == hookFinalizer && !hooks
	})
	if hooks && !slices.Contains(list, hookFinalizer) {
		list = append(list, hookFinalizer)
	}
	return list
}

// remove lets an add-on that is deleted go once its hooks have run (O-30, O-31). It does not wait for a cluster that is
// gone, for longer than the deadline, or if a user says so.
func (r *clusterAddOns) remove(ctx context.Context, p place, gone bool) (reconcile.Result, error) {
	a := p.addOn
	if !slices.Contains(a.Finalizers, hookFinalizer) {
		return reconcile.Result{}, nil
	}
	left := a.DeletionTimestamp.Add(hookDeadline).Sub(r.now())
	done := "hook manifest is completed"
	switch complete, waits, err := r.runHooks(ctx, p); {
	case gone:
		done = "the cluster is gone"
	case a.Annotations[scene.ForceDelete] == "true":
		done = "annotation " + scene.ForceDelete + " is set"
	case left <= 0:
		done = fmt.Sprintf("the hooks did not complete within %s", hookDeadline)
	case err != nil:
		return reconcile.Result{}, err
	case !complete:
		after := copyOf(a)
		r.set(&after.Status.Conditions, "HookManifestCompleted", "False", "HookManifestIsNotCompleted", waits)
		return reconcile.Result{RequeueAfter: left}, client.IgnoreNotFound(r.patchStatus(ctx, a, after))
	}
	r.log.InfoContext(ctx, "an add-on goes", "cluster", a.Namespace, "addon", a.Name, "because", done)
	after := copyOf(a)
	after.Finalizers = slices.DeleteFunc(after.Finalizers, func(f string) bool { return f == hookFinalizer })
	return reconcile.Result{}, client.IgnoreNotFound(r.patch(ctx, a, after))
}

// runHooks makes the work of the hooks. It returns whether they are complete, and what they wait for.
func (r *clusterAddOns) runHooks(ctx context.Context, p place) (complete bool, waits string, err error) {
	name := deploy.HookName(p.addOn.Name)
	for _, w := range p.works {
		if w.Name == name {
			return deploy.Completed(w), fmt.Sprintf("addon %s: hook manifest is not completed", p.addOn.Name), nil
		}
	}
	_, hook, ready, err := r.render(ctx, p)
	switch {
	case err != nil:
		return false, "the hooks cannot be made: " + err.Error(), nil
	case !ready:
		return false, "the hooks cannot be made: the AddOnTemplate or its configuration has changed or is gone", nil
	case hook == nil:
		return true, "", nil
	}
	if err := r.Create(ctx, hook); err != nil && !apierrors.IsAlreadyExists(err) {
		return false, "", err
	}
	return false, fmt.Sprintf("addon %s: hook manifest is not completed", p.addOn.Name), nil
}

// clean deletes the works of an add-on that is gone. If its cluster is gone too, nobody is left who would let them go.
func (r *clusterAddOns) clean(ctx context.Context, addOn types.NamespacedName, gone bool) error {
	works, err := r.works(ctx, &ocm.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: addOn.Namespace, Name: addOn.Name}})
	errs := []error{err}
	for i := range works {
		w := &works[i]
		if owner := metav1.GetControllerOf(w); owner == nil || owner.Kind != "ManagedClusterAddOn" || owner.Name != addOn.Name {
			continue
		}
		if w.DeletionTimestamp.IsZero() {
			errs = append(errs, client.IgnoreNotFound(r.Delete(ctx, w)))
		}
		if gone && len(w.Finalizers) > 0 {
			after := copyOf(w)
			after.Finalizers = nil
			errs = append(errs, client.IgnoreNotFound(r.patch(ctx, w, after)))
		}
	}
	return errors.Join(errs...)
}
