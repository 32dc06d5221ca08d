package platform

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// maxDepth bounds indexes in indexes.
const maxDepth = 16

// Read returns the content of an index, a manifest or a configuration.
type Read func(ctx context.Context, desc ocispec.Descriptor) ([]byte, error)

// NoMatchError reports that no image of an index is for a platform.
type NoMatchError struct {
	Offered []ocispec.Descriptor // entries with a platform, without attestations
}

func (e *NoMatchError) Error() string {
	names := []string{}
	for _, d := range e.Offered {
		names = append(names, Name(*d.Platform))
	}
	if len(names) == 0 {
		return "the index is empty"
	}
	slices.Sort(names)
	return "only for " + strings.Join(slices.Compact(names), ", ")
}

// Choose returns the indexes that a node's containerd reads from root on, in this order, and at last the manifest that it loads. On an
// error they end where it happened. It fails where containerd finds none: with a *NoMatchError if an index has no image for the platform.
// An index is sorted by how well its entries match, entries without a platform are last, and the first one counts. Its configuration
// decides if it has no platform.
func Choose(ctx context.Context, read Read, root ocispec.Descriptor, wanted platforms.MatchComparer) ([]ocispec.Descriptor, error) {
	c := chooser{read: read, wanted: wanted}
	all := images.HandlerFunc(c.children)
	limited := images.LimitManifests(images.FilterPlatforms(all, wanted), wanted, 1)
	err := images.Walk(ctx, images.HandlerFunc(func(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		if !images.IsIndexType(desc.MediaType) && !images.IsManifestType(desc.MediaType) {
			return nil, fmt.Errorf("%s is of type %q, which containerd does not load as an image", desc.Digest, desc.MediaType)
		}
		if c.path = append(c.path, desc); len(c.path) > maxDepth {
			return nil, fmt.Errorf("more than %d nested indexes", maxDepth)
		}
		next, err := limited(ctx, desc)
		if errdefs.IsNotFound(err) && c.failed == nil {
			err = &NoMatchError{Offered: c.offered}
		}
		return next, err
	}), root)
	if err != nil {
		return c.path, err
	}
	return c.path, c.check(ctx)
}

type chooser struct {
	read    Read
	wanted  platforms.MatchComparer
	path    []ocispec.Descriptor
	offered []ocispec.Descriptor
	failed  error // of read
}

// children returns the entries of an index. A manifest is only checked to be one.
func (c *chooser) children(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	var body []byte
	if body, c.failed = c.read(ctx, desc); c.failed != nil {
		return nil, c.failed
	}
	desc.Data = nil // what read returns counts
	entries, err := images.Children(ctx, document(body), desc)
	if err != nil || images.IsManifestType(desc.MediaType) {
		return nil, err
	}
	for _, d := range entries {
		if d.Platform != nil && d.Platform.OS != "unknown" { // so buildkit marks attestations
			c.offered = append(c.offered, d)
		}
	}
	return entries, nil
}

// check compares a manifest that an index lists without a platform by its configuration.
func (c *chooser) check(ctx context.Context) error {
	last := c.path[len(c.path)-1]
	if len(c.path) == 1 || last.Platform != nil {
		return nil
	}
	body, err := c.read(ctx, last)
	if err != nil {
		return err
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(body, &manifest); err != nil {
		return fmt.Errorf("manifest %s: %w", last.Digest, err)
	}
	if body, err = c.read(ctx, manifest.Config); err != nil {
		return err
	}
	manifest.Config.Data = nil
	config, err := images.ConfigPlatform(ctx, document(body), manifest.Config)
	if err != nil {
		return fmt.Errorf("configuration of %s: %w", last.Digest, err)
	}
	if !c.wanted.Match(config) {
		last.Platform = &config
		return &NoMatchError{Offered: append(c.offered, last)}
	}
	return nil
}

// document is a content.Provider of one document.
type document []byte

// ReaderAt implements content.Provider.
func (d document) ReaderAt(context.Context, ocispec.Descriptor) (content.ReaderAt, error) {
	return documentReader{bytes.NewReader(d)}, nil
}

type documentReader struct{ *bytes.Reader }

// Close implements io.Closer.
func (documentReader) Close() error { return nil }
