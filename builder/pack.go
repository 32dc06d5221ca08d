package builder

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/builder/asset"
	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/hostpkg"
	"github.com/sealift/sealift/builder/image"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/diag"
)

// Where things lie below an add-on's directory in the archive.
const (
	imagesDir   = "images"
	assetsDir   = "assets"
	packagesDir = "packages"
)

// transfer is one blob to fetch.
type transfer struct {
	digest string
	size   int64
	pos    diag.Pos // of the directive that it is for
	fetch  func(context.Context) (fetch.Stored, error)
}

// fetch brings everything that a resolution names into the cache, the largest first so that none is left to wait for at
// the end, and returns how many bytes were transferred for it, then or while it was resolved. The first failure ends it.
func (b *Builder) fetch(ctx context.Context, a *addOn, r Resolution) (int64, error) {
	transfers := b.transfers(a, r)
	var fetched atomic.Int64
	var wrong faults
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(b.jobs)
	for _, t := range transfers {
		group.Go(func() error {
			if err := groupCtx.Err(); err != nil {
				return err
			}
			stored, err := t.fetch(groupCtx)
			if err != nil && groupCtx.Err() == nil {
				wrong.add(t.pos, err)
			}
			fetched.Add(stored.Transferred)
			return err
		})
	}
	err := group.Wait()
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if found := wrong.list.Err(); found != nil {
		return 0, found
	}
	return fetched.Load() + r.fetched(), err
}

// fetched is how many bytes were transferred to resolve.
func (r Resolution) fetched() int64 {
	var n int64
	for _, one := range r.Assets {
		n += one.Fetched
	}
	for _, one := range r.HostPackages {
		n += one.Fetched
	}
	return n
}

func (b *Builder) transfers(a *addOn, r Resolution) []transfer {
	var list []transfer
	seen := make(map[string]bool)
	add := func(t transfer) {
		if !seen[t.digest] {
			seen[t.digest] = true
			list = append(list, t)
		}
	}
	for i, img := range r.Images {
		for _, d := range img.Blobs() {
			add(transfer{d.Digest, d.Size, a.manifest.Images()[i].Pos, func(ctx context.Context) (fetch.Stored, error) {
				return b.images.Fetch(ctx, img, d)
			}})
		}
	}
	for i, one := range r.Assets {
		if asset.IsURL(one.Source) {
			add(transfer{"sha256:" + one.SHA256, one.Size, r.assetsFrom[i], func(ctx context.Context) (fetch.Stored, error) {
				return b.assets.Fetch(ctx, one)
			}})
		}
	}
	for _, p := range r.HostPackages {
		add(transfer{"sha256:" + p.SHA256, p.Size, a.manifest.HostPackages()[0].Pos, func(ctx context.Context) (fetch.Stored, error) {
			return b.packages.Fetch(ctx, p)
		}})
	}
	slices.SortStableFunc(list, func(a, b transfer) int { return cmp.Compare(b.size, a.size) })
	return list
}

// assemble lists the files of the package, the add-on's own and those it carries, and describes the latter.
func (b *Builder) assemble(ctx context.Context, a *addOn, own []bundle.File, r Resolution) (bundle.Package, error) {
	dir := bundle.AddOnDir(a.name, a.version)
	p := bundle.Package{Name: a.name, Version: a.version, Platforms: b.platforms, Targets: r.Targets, Files: own}
	images, err := b.packImages(ctx, path.Join(dir, imagesDir), r.Images)
	if err != nil {
		return bundle.Package{}, err
	}
	p.Files = append(p.Files, images...)
	for _, img := range r.Images {
		p.Contents.Images = append(p.Contents.Images, img.Describe())
	}
	for _, one := range r.Assets {
		to := path.Join(dir, assetsDir)
		p.Files = append(p.Files, one.Pack(to, b.cache))
		p.Contents.Assets = append(p.Contents.Assets, one.Describe(to))
	}
	for _, target := range r.Targets {
		to := path.Join(dir, packagesDir, target)
		packages := slices.DeleteFunc(slices.Clone(r.HostPackages), func(p hostpkg.Resolved) bool { return p.Target != target })
		files, err := hostpkg.Repository(to, packages, b.cache)
		if err != nil {
			return bundle.Package{}, err
		}
		p.Files = append(p.Files, files...)
		for _, one := range packages {
			p.Contents.HostPackages = append(p.Contents.HostPackages, one.Describe(to))
		}
	}
	written, err := b.packDockerouts(dir, r)
	if err != nil {
		return bundle.Package{}, err
	}
	p.Files = append(p.Files, written...)
	list, err := b.materials(ctx, p, r.Images, written)
	if err != nil {
		return bundle.Package{}, fmt.Errorf("bill of materials: %w", err)
	}
	p.Files = append(p.Files, list)
	return p, unambiguous(p.Files)
}

// packImages gives the files of images in the format that was asked for.
func (b *Builder) packImages(ctx context.Context, dir string, images []image.Resolved) ([]bundle.File, error) {
	if b.format == OCILayout {
		return image.Layout(dir, images, b.cache)
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

// unambiguous refuses two files of one path: a file of the add-on itself may have the place of one that is fetched.
func unambiguous(files []bundle.File) error {
	seen := make(map[string]bool, len(files))
	for _, f := range files {
		if seen[f.Path] {
			return fmt.Errorf("%s is in the add-on's directory and also made by its Manifest; rename one of them", f.Path)
		}
		seen[f.Path] = true
	}
	return nil
}
