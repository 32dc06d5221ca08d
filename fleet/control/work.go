package control

import (
	"context"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
		if err := r.patch(ctx, before, after); err != nil {
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
