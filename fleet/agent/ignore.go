package agent

import (
	"bytes"
	"context"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/sealift/sealift/fleet/ocm"
)

// ignoreError means that the fields of a rule cannot be found.
type ignoreError struct{ error }

func (e *ignoreError) Unwrap() error { return e.error }

// ignore returns what to apply of a manifest. Fields that its strategy ignores keep the values that they have on the
// cluster, once the object exists. A change between this read and the apply is lost.
func (a *agent) ignore(ctx context.Context, m manifest, how strategy) (*unstructured.Unstructured, error) {
	s := m.config.UpdateStrategy
	if how.createOnly || s == nil || s.Type != ocm.UpdateServerSideApply || s.ServerSideApply == nil || len(s.ServerSideApply.IgnoreFields) == 0 {
		return m.object, nil
	}
	live, err := a.live(ctx, m.object)
	if apierrors.IsNotFound(err) {
		return m.object, nil
	}
	if err != nil {
		return nil, err
	}
	wanted := m.object.DeepCopy()
	for _, field := range s.ServerSideApply.IgnoreFields {
		for _, find := range finders(field) {
			paths, err := find(ctx, wanted)
			if err != nil {
				return nil, &ignoreError{err}
			}
			for _, path := range slices.Backward(paths) { // removing an element of a list moves those behind it
				if field.Condition == ocm.OnSpokeChange {
					keepChanged(wanted, live, how.manager, path)
				} else {
					keepPresent(wanted, live, path)
				}
			}
		}
	}
	return wanted, nil
}

// keepPresent gives a field the value that it has on the cluster.
func keepPresent(wanted, live *unstructured.Unstructured, path fieldPath) {
	there, found := counterpart(wanted.Object, live.Object, path)
	edit(wanted.Object, path, there, !found)
}

// keepChanged removes what another manager has changed on the cluster. While a field is ours, nobody has changed it; applying its value
// would make it ours again.
func keepChanged(wanted, live *unstructured.Unstructured, manager string, path fieldPath) {
	here, _ := counterpart(wanted.Object, wanted.Object, path)
	if fields, ok := here.(map[string]any); ok && len(fields) > 0 {
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			keepChanged(wanted, live, manager, append(slices.Clone(path), name))
		}
		return
	}
	if !owns(live, manager, wanted.Object, path) {
		edit(wanted.Object, path, nil, true)
	}
}

// owns reports whether a manager applied a field of an object last, or a part of it. The path is one in wanted.
func owns(live *unstructured.Unstructured, manager string, wanted map[string]any, path fieldPath) bool {
	for _, entry := range live.GetManagedFields() {
		if entry.Manager != manager || entry.Operation != metav1.ManagedFieldsOperationApply || entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		var set fieldpath.Set
		if set.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())) != nil {
			continue
		}
		var all []fieldpath.Path
		set.Iterate(func(p fieldpath.Path) { all = append(all, p.Copy()) })
		for _, p := range all {
			if along(p, wanted, path) && (len(p) >= len(path) || isWhole(p, all)) {
				return true
			}
		}
	}
	return false
}

// isWhole reports whether a field is managed with all that is in it, such as a nodeSelector.
func isWhole(p fieldpath.Path, all []fieldpath.Path) bool {
	return !slices.ContainsFunc(all, func(q fieldpath.Path) bool { return len(q) > len(p) && q[:len(p)].Equals(p) })
}

// along reports whether a managed field is the one at a path, below it, or above it.
func along(managed fieldpath.Path, node any, path fieldPath) bool {
	for i, step := range path[:min(len(path), len(managed))] {
		element := managed[i]
		switch step := step.(type) {
		case string:
			if element.FieldName == nil || *element.FieldName != step {
				return false
			}
		case int:
			if !isElement(element, child(node, step), step) {
				return false
			}
		}
		node = child(node, step)
	}
	return true
}

// isElement reports whether a managed field names an element of a list: by its keys, its value or its place.
func isElement(e fieldpath.PathElement, element any, at int) bool {
	switch {
	case e.Key != nil:
		fields, _ := element.(map[string]any)
		return !slices.ContainsFunc(*e.Key, func(f value.Field) bool {
			has, found := fields[f.Name] // one that is missing has its default
			return found && !value.Equals(value.NewValueInterface(has), f.Value)
		})
	case e.Value != nil:
		return value.Equals(*e.Value, value.NewValueInterface(element))
	}
	return e.Index != nil && *e.Index == at
}
