package patch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"

	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube"
)

const (
	// deleteTime is how long Delete waits until the object and its dependents are gone.
	deleteTime = 20 * time.Second
	deletePoll = 200 * time.Millisecond
	// busyTime is how long an operation is retried while the API server is busy or unreachable. After that, its hook runs again.
	busyTime = 10 * time.Second
)

// Do does the operations in order. Its error joins those of the failed operations.
func Do(ctx context.Context, cluster *kube.Cluster, operations []*Operation) error {
	var errs []error
	for _, o := range operations {
		if err := o.do(ctx, cluster); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", o, err))
		}
	}
	return errors.Join(errs...)
}

// Removed returns the objects that operations delete. Those of kinds that the cluster does not know are left out.
func Removed(ctx context.Context, cluster *kube.Cluster, operations []*Operation) (all []kube.Ref) {
	for _, o := range operations {
		if !o.deletes() {
			continue
		}
		if ref, err := cluster.KindOf(ctx, o.apiVersion, o.object); err == nil {
			ref.Namespace, ref.Name = o.namespace, o.name
			all = append(all, ref)
		}
	}
	return all
}

// Made returns the objects that operations have created, and not deleted again, without their version.
func Made(ctx context.Context, cluster *kube.Cluster, operations []*Operation) []kube.Ref {
	there := map[kube.Ref]bool{}
	for _, o := range operations {
		if o.content == nil && !o.deletes() {
			continue
		}
		if ref, err := cluster.KindOf(ctx, o.apiVersion, o.object); err == nil {
			ref.Version, ref.Namespace, ref.Name = "", o.namespace, o.name
			there[ref] = !o.deletes()
		}
	}
	maps.DeleteFunc(there, func(_ kube.Ref, there bool) bool { return !there })
	return slices.Collect(maps.Keys(there))
}

func (o *Operation) do(ctx context.Context, cluster *kube.Cluster) error {
	if o.broken != nil {
		return o.broken
	}
	ref, err := o.as(ctx, cluster)
	if kube.Unserved(err) { // since it was looked up
		cluster.Forget(ref)
		_, err = o.as(ctx, cluster)
	}
	return err
}

// as does the operation with the kind that the cluster knows by its name, which it returns.
func (o *Operation) as(ctx context.Context, cluster *kube.Cluster) (ref kube.Ref, err error) {
	ref, err = cluster.KindOf(ctx, o.apiVersion, o.object)
	if err != nil {
		return ref, err // also of a deletion: the kind may be mistyped
	}
	ref.Namespace, ref.Name = o.namespace, o.name
	objects, err := cluster.Objects(ctx, ref)
	if err != nil {
		return ref, err
	}
	bounded, cancel := context.WithTimeout(ctx, busyTime)
	defer cancel()
	err = cluster.Retry(bounded, ref, func(ctx context.Context) error { return o.try(ctx, objects) })
	if err == nil && o.kind == remove {
		err = waitGone(ctx, objects, o.name)
	}
	return ref, err
}

func (o *Operation) deletes() bool {
	return o.kind == remove || o.kind == removeBackground || o.kind == removeOrphaning
}

// finalError hides permanent errors from Retry, such as that of an existing object.
type finalError struct{ error }

// try does the operation once. A conflict is an error that is tried again.
func (o *Operation) try(ctx context.Context, objects dynamic.ResourceInterface) error {
	switch o.kind {
	case create, createOrUpdate, createIfNotExists:
		return o.create(ctx, objects)
	case remove:
		return gone(objects.Delete(ctx, o.name, deletion(metav1.DeletePropagationForeground)))
	case removeBackground:
		return gone(objects.Delete(ctx, o.name, deletion(metav1.DeletePropagationBackground)))
	case removeOrphaning:
		return gone(objects.Delete(ctx, o.name, deletion(metav1.DeletePropagationOrphan)))
	}
	err := o.patch(ctx, objects)
	if o.ignoreMissing {
		return gone(err)
	}
	return err
}

func deletion(how metav1.DeletionPropagation) metav1.DeleteOptions {
	return metav1.DeleteOptions{PropagationPolicy: &how}
}

// gone treats a missing object as success.
func gone(err error) error {
	if apierrors.IsNotFound(err) && !kube.Unserved(err) {
		return nil
	}
	return err
}

// subresources are the targets of the operation other than the object itself.
func (o *Operation) subresources() []string {
	if o.subresource == "" {
		return nil
	}
	return []string{o.subresource}
}

func (o *Operation) create(ctx context.Context, objects dynamic.ResourceInterface) error {
	_, err := objects.Create(ctx, o.content.DeepCopy(), metav1.CreateOptions{}, o.subresources()...)
	switch {
	case !apierrors.IsAlreadyExists(err):
		return err
	case o.kind == createIfNotExists:
		return nil
	case o.kind == create:
		// Not wrapped: kube takes this for an error that passes.
		return finalError{errors.New(err.Error())}
	}
	live, err := objects.Get(ctx, o.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	wanted := o.content.DeepCopy()
	wanted.SetResourceVersion(live.GetResourceVersion())
	_, err = objects.Update(ctx, wanted, metav1.UpdateOptions{}, o.subresources()...)
	return err
}

func (o *Operation) patch(ctx context.Context, objects dynamic.ResourceInterface) error {
	switch o.kind {
	case patchMerge:
		_, err := objects.Patch(ctx, o.name, types.MergePatchType, o.body, metav1.PatchOptions{}, o.subresources()...)
		return err
	case patchJSON:
		_, err := objects.Patch(ctx, o.name, types.JSONPatchType, o.body, metav1.PatchOptions{}, o.subresources()...)
		return err
	}
	live, err := objects.Get(ctx, o.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	version := live.GetResourceVersion()
	result, err := o.filter.Apply(ctx, live.DeepCopy().Object)
	if err != nil {
		return finalError{err}
	}
	wanted, err := object(result)
	if err != nil {
		return finalError{fmt.Errorf("jq filter %q: %w", o.filter, err)}
	}
	withoutServerFields(wanted.Object)
	withoutServerFields(live.Object)
	if reflect.DeepEqual(wanted.Object, live.Object) {
		return nil // the hook may not be allowed to update, and webhooks need not judge
	}
	wanted.SetResourceVersion(version)
	_, err = objects.Update(ctx, wanted, metav1.UpdateOptions{}, o.subresources()...)
	return err
}

// object makes an object from the result of a jq filter.
func object(result any) (*unstructured.Unstructured, error) {
	data, err := json.Marshal(result)
	if err != nil {
		return nil, err
	}
	var content map[string]any
	if err := utiljson.Unmarshal(data, &content); err != nil || content == nil {
		return nil, errors.New("its result is not an object")
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// waitGone returns when the object is deleted, together with its dependents.
func waitGone(ctx context.Context, objects dynamic.ResourceInterface, name string) error {
	bounded, cancel := context.WithTimeout(ctx, deleteTime)
	defer cancel()
	err := poll.Until(bounded, deletePoll, nil, func(ctx context.Context) (bool, error) {
		live, err := objects.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && live.GetDeletionTimestamp() == nil { // another client may have recreated it under that name
			return true, nil
		}
		return false, poll.NotYet(err)
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("still there %s after it was deleted; look at its finalizers: %w", deleteTime, err)
	}
	return nil
}
