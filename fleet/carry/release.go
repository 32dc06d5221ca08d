package carry

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/sealift/sealift/fleet/chartplan"
	"github.com/sealift/sealift/fleet/parcel"
	"github.com/sealift/sealift/fleet/template"
	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/helm/engine"
	"github.com/sealift/sealift/kube/render"
)

// packReleases adds the Helm releases of the cluster to a parcel, and their images to those that are wanted. It returns their charts
// by path.
func (h Hub) packReleases(ctx context.Context, into *parcel.Parcel, out *Packed) (map[string][]byte, error) {
	list, charts, left, err := h.releases().Releases(ctx, into.Cluster)
	if err != nil {
		return nil, fmt.Errorf("pack the Helm releases of cluster %s: %w", into.Cluster, err)
	}
	into.Releases = list
	for _, one := range left {
		out.Unknown = append(out.Unknown, one.Error()+"; it is installed, and stays as it is")
	}
	for _, r := range list {
		name := r.Proxy.Namespace + "/" + r.Proxy.Name
		if r.Chart == "" {
			out.Deleted = append(out.Deleted, name)
			continue
		}
		out.Releases = append(out.Releases, name)
		images, err := chartImages(ctx, r, charts[parcel.ChartFile(r.Chart)])
		if err != nil {
			out.Unknown = append(out.Unknown, fmt.Sprintf("%s: %v", name, err))
		}
		out.Images = append(out.Images, images...)
	}
	slices.Sort(out.Images)
	out.Images = slices.Compact(out.Images)
	return charts, nil
}

// chartImages returns the images of a release as far as they can be known without its cluster.
func chartImages(ctx context.Context, r parcel.Release, chart []byte) (images []string, err error) {
	rendered, err := engine.Renderer{}.Render(ctx, chart, helm.Release{
		Name: chartplan.Name(r.Proxy), Namespace: cmp.Or(r.Proxy.Spec.ReleaseNamespace, "default"), Values: []byte(r.Proxy.Spec.Values),
	})
	if err != nil {
		return nil, err
	}
	for _, o := range rendered.Objects {
		objects, err := render.Decode(bytes.NewReader(o.YAML))
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			template.RewriteImages(object.Object, r.Mirrors)
			images = append(images, template.Images(object.Object)...)
		}
	}
	if len(rendered.Lookups) > 0 {
		err = fmt.Errorf("its templates ask the cluster for %s", rendered.Lookups)
	}
	return images, err
}
