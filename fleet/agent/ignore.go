package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/sealift/sealift/fleet/ocm"
)

// ignore returns what to apply of a manifest. Fields that its strategy ignores keep the values that they have on the
// cluster, once the object exists. A change between this read and the apply is lost.
func (a *agent) ignore(ctx context.Context, m manifest, how strategy) (*unstructured.Unstructured, error) {
	s := m.config.UpdateStrategy
	if how.createOnly || s == nil || s.ServerSideApply == nil || len(s.ServerSideApply.IgnoreFields) == 0 {
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
		paths, err := fieldPaths(field)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if field.Condition == ocm.OnSpokeChange {
				// while the field is ours, nobody has changed it on the cluster; applying its value would make it ours again
				if !owns(live, how.manager, path) {
					unstructured.RemoveNestedField(wanted.Object, path...)
				}
				continue
			}
			value, found, err := unstructured.NestedFieldCopy(live.Object, path...)
			if err != nil {
				return nil, fmt.Errorf("ignore %s: %w", strings.Join(path, "."), err)
			}
			if !found {
				unstructured.RemoveNestedField(wanted.Object, path...)
			} else if err := unstructured.SetNestedField(wanted.Object, value, path...); err != nil {
				return nil, fmt.Errorf("ignore %s: %w", strings.Join(path, "."), err)
			}
		}
	}
	return wanted, nil
}

// fieldPaths reads the fields that a rule names. It knows fields of objects, not elements of lists.
func fieldPaths(field ocm.IgnoreField) ([][]string, error) {
	if len(field.JQPathExpressions) > 0 {
		return nil, errors.New("ignoreFields: jqPathExpressions are not supported; use jsonPointers")
	}
	var paths [][]string
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for _, pointer := range field.JSONPointers {
		rest, found := strings.CutPrefix(pointer, "/")
		if !found {
			return nil, fmt.Errorf("ignoreFields: JSON pointer %q does not begin with a slash", pointer)
		}
		parts := strings.Split(rest, "/")
		for i := range parts {
			parts[i] = unescape.Replace(parts[i])
		}
		paths = append(paths, parts)
	}
	for _, path := range field.JSONPaths {
		if strings.ContainsAny(path, "[]*{}$@") {
			return nil, fmt.Errorf("ignoreFields: JSON path %q has more than names separated by dots; use jsonPointers", path)
		}
		paths = append(paths, strings.Split(strings.TrimPrefix(path, "."), "."))
	}
	return paths, nil
}

// owns reports whether a manager applied a field of an object last.
func owns(live *unstructured.Unstructured, manager string, path []string) bool {
	parts := make([]any, len(path))
	for i, p := range path {
		parts[i] = p
	}
	for _, entry := range live.GetManagedFields() {
		if entry.Manager != manager || entry.Operation != metav1.ManagedFieldsOperationApply || entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		var set fieldpath.Set
		if set.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())) == nil && set.Has(fieldpath.MakePathOrDie(parts...)) {
			return true
		}
	}
	return false
}
