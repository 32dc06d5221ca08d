package runtime

import (
	"context"
	"fmt"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"
)

// Known is an image as the kubelet knows it.
type Known struct {
	ID    string   // the digest of its configuration for this host
	Names []string // those of the same index or manifest that a load gave it; the kubelet's pulls of copies give others
}

// Known returns the images of some names. Names that containerd does not have, or has for other platforms only, are left out.
func (r *Runtime) Known(ctx context.Context, names ...string) (all []Known, err error) {
	service := r.client.ImageService()
	for _, name := range names {
		record, err := service.Get(ctx, name)
		if errdefs.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look up image %s: %w", name, err)
		}
		config, err := containerd.NewImageWithPlatform(r.client, record, r.platform).Config(ctx)
		if errdefs.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("configuration of image %s: %w", name, err)
		}
		same, err := service.List(ctx, fmt.Sprintf("target.digest==%q", record.Target.Digest))
		if err != nil {
			return nil, fmt.Errorf("names of image %s: %w", name, err)
		}
		one := Known{ID: config.Digest.String()}
		for _, other := range same {
			if other.Labels[pinLabel] == pin {
				one.Names = append(one.Names, other.Name)
			}
		}
		all = append(all, one)
	}
	return all, nil
}
