package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/sealift/sealift/bundle"
)

// Images brings images to where the nodes of a cluster find them.
type Images interface {
	// Check reports whether it can, before anything changes.
	Check(ctx context.Context) error
	// Bring brings the images of a bundle that is unpacked in a folder to all nodes that are Ready, and names these nodes. It leaves
	// existing files alone.
	Bring(ctx context.Context, folder string) (nodes []string, err error)
}

// DefaultImageTimeout is long enough for large images on a slow line. A node that does not answer at all is given up sooner.
const DefaultImageTimeout = 4 * time.Hour

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
		return fmt.Errorf("store the content of the parcel in %s: %w", c.Content, err)
	}
	if images == nil {
		return nil
	}
	if err := within(ctx, DefaultImageTimeout, func(ctx context.Context) error {
		_, err := images.Bring(ctx, filepath.Join(c.Content, currentName))
		return err
	}); err != nil {
		return fmt.Errorf("deliver the images of the parcel to the nodes: %w; run the same command again", err)
	}
	return nil
}

// within bounds the time of work. If that ended it, the error says so.
func within(ctx context.Context, timeout time.Duration, work func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := work(bounded)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		return fmt.Errorf("not done after %s: %w", timeout, err)
	}
	return err
}
