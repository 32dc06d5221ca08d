package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/ocm"
)

// appliedFinalizer is the finalizer of Open Cluster Management's agent on its records.
const appliedFinalizer = "cluster.open-cluster-management.io/applied-manifest-work-cleanup"

// former is the record that the agent of Open Cluster Management kept of a work. It owns the objects, so deleting it would delete them.
type former struct {
	record  *unstructured.Unstructured
	applied []ocm.AppliedResource
}

// formerWorks reads the records of a work that the agent of Open Cluster Management wrote, for the hub of today or at its former addresses.
func (a *agent) formerWorks(ctx context.Context, work string) (list []former, err error) {
	hashes := []string{a.hubHash}
	for _, url := range a.FormerHubs {
		hashes = append(hashes, hashOf(url))
	}
	for _, hash := range hashes {
		record, err := a.appliedWorks().Get(ctx, hash+"-"+work, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		var content ocm.AppliedManifestWork
		if err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(record.Object, &content)
		}
		if err != nil {
			return nil, fmt.Errorf("read an earlier agent's record of work %s: %w", work, err)
		}
		if content.Annotations[placesAnnotation] == "" {
			list = append(list, former{record, content.Status.AppliedResources})
		}
	}
	return list, nil
}

// managers are the field managers of the agent that wrote the records. What it set and the manifests no longer have goes.
func managers(formers []former) []string {
	names := []string{} // nil would be kubectl
	for _, f := range formers {
		for _, entry := range f.record.GetManagedFields() {
			if entry.Operation == metav1.ManagedFieldsOperationUpdate && !slices.Contains(names, entry.Manager) {
				names = append(names, entry.Manager)
			}
		}
	}
	return names
}

// takeOver ends the record that the agent of Open Cluster Management kept of a work. It deletes the objects that do not stay, and removes
// the record from the owners of the others. An object that the record does not own is left alone. Those that are still there are an error.
func (a *agent) takeOver(ctx context.Context, formers []former, stays func(ocm.ResourceIdentifier) bool) error {
	for _, f := range formers {
		var errs []error
		for _, r := range f.applied {
			if err := a.takeOne(ctx, f, r, stays(r.ResourceIdentifier)); err != nil {
				errs = append(errs, fmt.Errorf("%s %s/%s of an earlier agent: %w", r.Resource, r.Namespace, r.Name, err))
			}
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		if err := a.endRecord(ctx, f); err != nil {
			return fmt.Errorf("record %s of an earlier agent: %w", f.record.GetName(), err)
		}
	}
	return nil
}

// takeOne deletes an object, or removes its owner, the record.
func (a *agent) takeOne(ctx context.Context, f former, r ocm.AppliedResource, stays bool) error {
	objects := a.local.Dynamic().Resource(schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}).Namespace(r.Namespace)
	live, err := objects.Get(ctx, r.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) { // or its kind
		return nil
	}
	if err != nil {
		return err
	}
	owners := live.GetOwnerReferences()
	others := slices.DeleteFunc(slices.Clone(owners), func(o metav1.OwnerReference) bool { return o.UID == f.record.GetUID() })
	if len(others) == len(owners) || r.UID != "" && r.UID != string(live.GetUID()) {
		return nil // it is foreign, or stays by a rule of the earlier agent
	}
	_, member := live.GetLabels()["applyset.kubernetes.io/part-of"] // of another work, or foreign
	if !stays && !member && len(others) == 0 {
		return a.deleteObject(ctx, objects.Delete, live)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": others, "resourceVersion": live.GetResourceVersion()}})
	if err != nil {
		return err
	}
	_, err = objects.Patch(ctx, r.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: ocm.DefaultFieldManager})
	return client.IgnoreNotFound(err)
}

// errFinalizerPending means that an object has finalizers.
var errFinalizerPending = errors.New("it is being deleted")

func (a *agent) deleteObject(ctx context.Context, remove func(context.Context, string, metav1.DeleteOptions, ...string) error, live *unstructured.Unstructured) error {
	background, uid := metav1.DeletePropagationBackground, live.GetUID()
	if live.GetDeletionTimestamp() == nil {
		err := remove(ctx, live.GetName(), metav1.DeleteOptions{PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &uid}})
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	if len(live.GetFinalizers()) > 0 {
		return errFinalizerPending
	}
	return nil
}

// endRecord deletes a record, unless it is our own: that has the same name for the same address of the hub.
func (a *agent) endRecord(ctx context.Context, f former) error {
	left := slices.DeleteFunc(f.record.GetFinalizers(), func(name string) bool { return name == appliedFinalizer })
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": left}})
	if err == nil {
		_, err = a.appliedWorks().Patch(ctx, f.record.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: ocm.DefaultFieldManager})
	}
	if hash, _, _ := unstructured.NestedString(f.record.Object, "spec", "hubHash"); err != nil || hash == a.hubHash {
		return client.IgnoreNotFound(err)
	}
	orphan, uid := metav1.DeletePropagationOrphan, f.record.GetUID()
	return client.IgnoreNotFound(a.appliedWorks().Delete(ctx, f.record.GetName(), metav1.DeleteOptions{PropagationPolicy: &orphan, Preconditions: &metav1.Preconditions{UID: &uid}}))
}
