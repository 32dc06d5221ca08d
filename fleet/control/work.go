package control

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/configuration"
	"github.com/sealift/sealift/fleet/deploy"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/seal"
)

// write creates, changes and deletes works. It returns the works as they are afterwards.
func (r *clusterAddOns) write(ctx context.Context, had []ocm.ManifestWork, next deploy.Step) ([]ocm.ManifestWork, error) {
	var written []ocm.ManifestWork
	for i := range next.Apply {
		w := &next.Apply[i]
		at := slices.IndexFunc(had, func(h ocm.ManifestWork) bool { return h.Name == w.Name && h.Namespace == w.Namespace })
		if at < 0 {
			if err := r.sealWork(ctx, w); err != nil {
				return nil, err
			}
			if err := r.Create(ctx, w); err != nil && !apierrors.IsAlreadyExists(err) {
				return nil, err
			}
			written = append(written, *w)
			continue
		}
		before := &had[at]
		after := copyOf(before)
		after.Spec, after.OwnerReferences = w.Spec, w.OwnerReferences
		if after.Labels == nil {
			after.Labels = make(map[string]string)
		}
		maps.Copy(after.Labels, w.Labels)
		if after.Annotations == nil {
			after.Annotations = make(map[string]string)
		}
		delete(after.Annotations, configuration.HashAnnotation)
		maps.Copy(after.Annotations, w.Annotations)
		after.Spec = seal.Defaulted(after.Spec)
		if err := r.sealWork(ctx, after); err != nil {
			return nil, err
		}
		if err := r.patchWork(ctx, before, after); err != nil {
			return nil, err
		}
		written = append(written, *after)
	}
	for i := range next.Delete {
		if err := r.deleteWork(ctx, &next.Delete[i]); err != nil {
			return nil, err
		}
	}
	return written, nil
}

// patchWork writes what changed in a work, if anything did. It fails with a conflict if the content of the work has changed since it was
// read. An answer of its cluster is not such a change, so that answers do not block the hub's writes.
func (c *controllers) patchWork(ctx context.Context, before, after *ocm.ManifestWork) error {
	operations, err := workPatch(before, after)
	if err != nil || len(operations) == 0 {
		return err
	}
	body, err := json.Marshal(operations)
	if err != nil {
		return err
	}
	err = c.Patch(ctx, after, client.RawPatch(types.JSONPatchType, body))
	if testFailed(err) {
		err = apierrors.NewConflict(ocm.WorkVersion.WithResource("manifestworks").GroupResource(), before.Name, err)
	}
	return c.written(before, after, err)
}

// operation is a step of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// workPatch returns the JSON patch that makes the spec, owners, labels and annotations of a work equal to those of another. It tests
// first that the work has still the content that it had.
func workPatch(before, after *ocm.ManifestWork) ([]operation, error) {
	changed, err := differ(before.Spec, after.Spec)
	if err != nil {
		return nil, err
	}
	var list []operation
	if changed {
		list = append(list, operation{"add", "/spec", after.Spec})
	}
	labels, allLabels := mapPatch("/metadata/labels", before.Labels, after.Labels)
	annotations, allAnnotations := mapPatch("/metadata/annotations", before.Annotations, after.Annotations)
	list = append(append(list, labels...), annotations...)
	owners := !equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences)
	if owners {
		list = append(list, operation{"add", "/metadata/ownerReferences", after.OwnerReferences})
	}
	if len(list) == 0 {
		return nil, nil
	}
	tests := []operation{{"test", "/metadata/uid", before.UID}, {"test", "/metadata/generation", before.Generation}}
	if allLabels || allAnnotations || owners { // concurrent writes of others would be lost
		tests = append(tests, operation{"test", "/metadata/resourceVersion", before.ResourceVersion})
	}
	return append(tests, list...), nil
}

// mapPatch returns the steps of a JSON patch that make a map another. It reports whether they write the whole map.
func mapPatch(path string, before, after map[string]string) (list []operation, whole bool) {
	if len(before) == 0 && len(after) > 0 {
		return []operation{{"add", path, after}}, true
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if had, found := before[key]; !found || had != after[key] {
			list = append(list, operation{"add", path + "/" + escape.Replace(key), after[key]})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, found := after[key]; !found {
			list = append(list, operation{Op: "remove", Path: path + "/" + escape.Replace(key)})
		}
	}
	return list, false
}

// testFailed reports whether a test of a JSON patch failed. The API server reports such a patch as invalid, without a field or kind, as it
// does for an invalid object.
func testFailed(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || details.Kind == "" && len(details.Causes) == 0
}
