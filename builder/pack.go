package builder

import (
	"context"
	"fmt"
	"path"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/builder/image"
	"github.com/sealift/sealift/builder/kind"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/lean"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/manifest"
)

// resolve resolves the directives of an add-on. Locked names are taken from Manifest.lock.
func (b *Builder) resolve(ctx context.Context, a *addOn) (kind.Resolution, error) {
	l, err := a.lock()
	if err != nil {
		return kind.Resolution{}, err
	}
	return b.kinds.Resolve(ctx, a.directives(), kind.Pins{Lock: l, Only: b.locked})
}

// warnings returns warnings about what this build leaves out, and about the Manifest.
func (b *Builder) warnings(m *manifest.File) []diag.Finding {
	var list diag.List
	list.Add(b.kinds.LeftOut(m)...)
	for _, f := range manifest.Check(m) {
		if f.Severity == diag.Warning {
			list.Add(f)
		}
	}
	return list.Findings()
}

// describe is the package of a resolution without its files.
func (b *Builder) describe(a *addOn, r kind.Resolution) bundle.Package {
	p := bundle.Package{Name: a.name, Version: a.version, Platforms: b.platforms}
	r.Describe(&p)
	return p
}

// files lists the files of a package: the add-on's own and those that it carries.
func (b *Builder) files(ctx context.Context, p bundle.Package, own []bundle.File, r kind.Resolution) ([]bundle.File, error) {
	dir := bundle.AddOnDir(p.Name, p.Version)
	images, err := b.packImages(ctx, path.Join(dir, kind.ImagesDir), r.Images())
	if err != nil {
		return nil, err
	}
	carried, err := r.Files(dir)
	if err != nil {
		return nil, err
	}
	materials, err := r.Materials(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("bill of materials: %w", err)
	}
	files := append(slices.Concat(own, images, carried), materials)
	return files, unambiguous(files)
}

// packImages returns the files of images in the requested format.
func (b *Builder) packImages(ctx context.Context, dir string, images []image.Resolved) ([]bundle.File, error) {
	if b.format != DockerArchive {
		files, err := image.Layout(dir, images, b.cache)
		if err != nil || b.format == OCILayout {
			return files, err
		}
		return b.lean(ctx, dir, files)
	}
	files := make([]bundle.File, len(images))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(b.jobs)
	for i, img := range images {
		group.Go(func() (err error) {
			files[i], err = image.DockerArchive(ctx, dir, img, b.cache)
			return err
		})
	}
	return files, group.Wait()
}

// lean returns the files of a layout with the lean forms of layers, which the cache keeps.
func (b *Builder) lean(ctx context.Context, dir string, files []bundle.File) ([]bundle.File, error) {
	digests := make(map[string]bool, len(files))
	for _, f := range files {
		digests[f.SHA256] = true
	}
	spool, err := b.cache.Derived(digests)
	if err != nil {
		return nil, err
	}
	return lean.Files(ctx, dir, files, spool)
}

// unambiguous refuses two files of one path: a file of the add-on itself may have the path of a fetched one.
func unambiguous(files []bundle.File) error {
	seen := make(map[string]bool, len(files))
	for _, f := range files {
		if seen[f.Path] {
			return fmt.Errorf("%s is both in the add-on's directory and created by its Manifest; rename one of them", f.Path)
		}
		seen[f.Path] = true
	}
	return nil
}
