package agent

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/seal"
	"github.com/sealift/sealift/kube"
)

// remove deletes the objects of a work on the cluster, and then releases the work. It believes only the hub that the work is
// deleted. The hub has some time to sign that.
func (a *agent) remove(ctx context.Context, work *ocm.ManifestWork) (again time.Duration, err error) {
	if !slices.Contains(work.Finalizers, ocm.WorkFinalizer) {
		return 0, nil
	}
	if err := a.accept(ctx, work); err != nil {
		var r *seal.Refusal
		if errors.As(err, &r) && r.Reason == seal.NotDeleted && time.Since(work.DeletionTimestamp.Time) < 3*a.Look {
			return a.Look, nil
		}
		return a.Look, a.refuse(ctx, work, err)
	}
	if err := a.delete(ctx, work); err != nil {
		return 0, err
	}
	a.remember(work.Name, nil)
	a.note(work.Name, nil)
	left := slices.DeleteFunc(slices.Clone(work.Finalizers), func(f string) bool { return f == ocm.WorkFinalizer })
	return 0, client.IgnoreNotFound(a.finalizers(ctx, work, left))
}

// delete deletes the objects of a work on the cluster.
func (a *agent) delete(ctx context.Context, work *ocm.ManifestWork) error {
	manifests := a.read(ctx, work)
	for _, m := range manifests {
		// in which manner it was applied is not known; of a kind that is gone, no object is left
		if m.id.Resource == "" && !meta.IsNoMatchError(m.err) {
			return m.err
		}
	}
	stays := func(ref kube.Ref) bool {
		resource, _ := a.local.Resource(ctx, ref) // no rule names an unknown one
		return orphaned(work.Spec, ocm.ResourceIdentifier{Group: ref.Group, Resource: resource, Namespace: ref.Namespace, Name: ref.Name})
	}
	was, err := a.recalled(ctx, work)
	if err != nil {
		return err
	}
	for name, manager := range placesOf(work, was, manifests, strategiesOf(manifests)).with(was).Sets {
		set := setNamed(name)
		if !a.exists(ctx, set) {
			continue
		}
		if _, err := a.engine(manager).Release(ctx, set, stays); err != nil {
			return err
		}
		if err := a.deleteSet(ctx, set, manager); err != nil {
			return err
		}
	}
	former, err := a.formerWorks(ctx, work.Name)
	if err == nil {
		err = a.takeOver(ctx, former, func(id ocm.ResourceIdentifier) bool { return orphaned(work.Spec, id) })
	}
	if err != nil {
		return err
	}
	if err := a.forget(ctx, work); err != nil {
		return err
	}
	return a.marks.gone(ctx, work.Name)
}

func (a *agent) deleteSet(ctx context.Context, set kube.Set, manager string) error {
	_, err := a.engine(manager).Delete(ctx, set, kube.DeleteOptions{Protected: true, Shared: true, Timeout: a.RemoveTime})
	return err
}
