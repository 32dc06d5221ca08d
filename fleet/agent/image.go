package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/sealift/sealift/bundle"
)

// Images brings images to where the nodes of a cluster find them.
type Images interface {
	// Check says whether it can, before anything changes.
	Check(ctx context.Context) error
	// Bring brings the images of a bundle that is unpacked in a folder. It leaves alone what is there.
	Bring(ctx context.Context, folder string) error
}

// imagesOf returns what brings the images of a parcel to the nodes, or nil if there are none to bring.
func (c Carried) imagesOf(ctx context.Context, a *bundle.Archive) (Images, error) {
	if c.Images == nil || !slices.ContainsFunc(a.Index.Packages, func(p bundle.PackageInfo) bool { return len(p.Images) > 0 }) {
		return nil, nil
	}
	return c.Images, c.Images.Check(ctx)
}

// keep keeps the content of a parcel, and brings its images to the nodes.
func (c Carried) keep(ctx context.Context, a *bundle.Archive, images Images) error {
	if err := keepContent(ctx, a, c.Content); err != nil {
		return fmt.Errorf("keep the content of the parcel in %s: %w", c.Content, err)
	}
	if images == nil {
		return nil
	}
	if err := images.Bring(ctx, filepath.Join(c.Content, currentName)); err != nil {
		return fmt.Errorf("bring the images of the parcel to the nodes: %w; run the same command again", err)
	}
	return nil
}
