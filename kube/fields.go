package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// takeFields makes the engine the manager of the fields that it takes over, so that the following apply replaces and removes
// them. Forcing alone would replace fields, and would keep their additions forever. It returns the metadata afterwards.
func (a *application) takeFields(ctx context.Context, res resource, live *metav1.PartialObjectMetadata) (*metav1.PartialObjectMetadata, error) {
	fields, changed, err := mergeManagers(live.ManagedFields, a.manager, a.takeOver)
	if err != nil || !changed {
		return live, err
	}
	// Replacing the resourceVersion by the one that was read makes the server refuse the patch if the object has changed.
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": fields},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": live.ResourceVersion},
	})
	if err != nil {
		return nil, err
	}
	taken, err := a.metaFor(res, a.ref.Namespace).Patch(ctx, a.ref.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: a.manager})
	if err != nil {
		return nil, fmt.Errorf("take over its fields: %w", err)
	}
	// A change of ownership alone does not count: only the apply makes the object "configured".
	return taken, nil
}

// mergeManagers folds the entries of the given managers into the engine's own. Entries of subresources stay, since a status or
// a scale is not part of the manifests.
func mergeManagers(entries []metav1.ManagedFieldsEntry, manager string, takeOver map[string]bool) (merged []metav1.ManagedFieldsEntry, changed bool, err error) {
	set := &fieldpath.Set{}
	var ours *metav1.ManagedFieldsEntry
	var last metav1.ManagedFieldsEntry
	for _, entry := range entries {
		own := entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply
		if entry.Subresource != "" || entry.FieldsV1 == nil || !own && !takeOver[entry.Manager] {
			merged = append(merged, entry)
			continue
		}
		var fields fieldpath.Set
		if err := fields.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())); err != nil {
			return nil, false, fmt.Errorf("read the fields of manager %s: %w", entry.Manager, err)
		}
		set = set.Union(&fields)
		last = entry
		if own {
			ours = &entry
		} else {
			changed = true
		}
	}
	if !changed {
		return entries, false, nil
	}
	if ours == nil {
		ours = &last
		ours.Manager, ours.Operation = manager, metav1.ManagedFieldsOperationApply
	}
	raw, err := set.ToJSON()
	if err != nil {
		return nil, false, err
	}
	ours.FieldsV1 = metav1.NewFieldsV1(string(raw))
	return append(merged, *ours), true, nil
}

// Owned returns the fields that a manager has applied to an object. Those of subresources are not among them.
func Owned(o metav1.Object, manager string) (*fieldpath.Set, error) {
	all := &fieldpath.Set{}
	for _, entry := range o.GetManagedFields() {
		if entry.Manager != manager || entry.Operation != metav1.ManagedFieldsOperationApply || entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		var fields fieldpath.Set
		if err := fields.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())); err != nil {
			return nil, fmt.Errorf("read the fields of manager %s: %w", manager, err)
		}
		all = all.Union(&fields)
	}
	return all, nil
}

// conflictIn reads the fields and their managers out of a server's refusal, or returns nil if err is not one.
func conflictIn(err error) *ConflictError {
	var status apierrors.APIStatus
	if !apierrors.IsConflict(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var conflicts []Conflict
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeFieldManagerConflict {
			conflicts = append(conflicts, Conflict{Field: cause.Field, Manager: managerIn(cause.Message)})
		}
	}
	if len(conflicts) == 0 {
		return nil
	}
	return &ConflictError{Conflicts: conflicts}
}

// managerIn reads the manager from `conflict with "NAME" using apps/v1`, the only place where a server names it.
func managerIn(message string) string {
	if _, rest, ok := strings.Cut(message, `"`); ok {
		if name, _, ok := strings.Cut(rest, `"`); ok {
			return name
		}
	}
	return message
}

// immutable recognises the refusals of a change to a field that cannot change. Servers have no separate code for it.
func immutable(err error) bool {
	if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		return false
	}
	text := err.Error()
	return slices.ContainsFunc(refusals, func(words string) bool { return strings.Contains(text, words) })
}

// refusals are the words of API servers for a field that cannot change: of a Service, of roles' bindings, and of a StorageClass, among others.
var refusals = []string{
	"immutable", "may not be changed", "may not change once set", "updates to statefulset spec", "pod updates may not change", "cannot change roleRef",
	"updates to parameters are forbidden", "updates to provisioner are forbidden", "updates to reclaimPolicy are forbidden",
}

// notFoundIsNamespace distinguishes a missing namespace from a missing kind: both are 404.
func notFoundIsNamespace(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "namespaces"
}

// onlyStatusMoved reports whether two states of an object differ in nothing that an apply could have changed. Without a
// generation it cannot be known, and then it says no.
func onlyStatusMoved(before, after *metav1.PartialObjectMetadata) bool {
	return before.Generation != 0 && before.Generation == after.Generation &&
		maps.Equal(before.Labels, after.Labels) && maps.Equal(before.Annotations, after.Annotations) &&
		slices.Equal(before.Finalizers, after.Finalizers) && len(before.OwnerReferences) == len(after.OwnerReferences)
}
