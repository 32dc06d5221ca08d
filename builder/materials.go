package builder

import (
	"context"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/builder/image"
	"github.com/sealift/sealift/builder/license"
	"github.com/sealift/sealift/builder/packfile"
	"github.com/sealift/sealift/builder/sbom"
	"github.com/sealift/sealift/bundle"
)

// licensesAtOnce is how many packages are looked into at once: each may take 8 MiB for its decompressor.
const licensesAtOnce = 2

// licenses is the kind of fact by which the cache knows what a package says of its licenses. Its number changes with the
// way in which that is read.
const licenses = "licenses-1"

// materials writes the bill of materials of a package. Its images are resolved; written are the files that Dockerfiles
// made.
func (b *Builder) materials(ctx context.Context, p bundle.Package, images []image.Resolved, written []bundle.File) (bundle.File, error) {
	s := sbom.Subject{Name: p.Name, Version: p.Version, Images: images, Assets: p.Contents.Assets, Files: written}
	s.HostPackages = make([]sbom.HostPackage, len(p.Contents.HostPackages))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(licensesAtOnce)
	for i, one := range p.Contents.HostPackages {
		group.Go(func() (err error) {
			s.HostPackages[i] = sbom.HostPackage{HostPackage: one}
			s.HostPackages[i].Licenses, err = b.licenses(ctx, one)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return bundle.File{}, err
	}
	data, err := sbom.Document(s)
	if err != nil {
		return bundle.File{}, err
	}
	return packfile.Bytes(path.Join(bundle.AddOnDir(p.Name, p.Version), sbom.FileName), data), nil
}

// licenses finds out what a host package says of its licenses, once for each content. A package that cannot be looked into
// says nothing: it is no reason to build without it.
func (b *Builder) licenses(ctx context.Context, p bundle.HostPackage) ([]string, error) {
	var said []string
	if b.cache.Recall(licenses, p.SHA256, &said) {
		return said, nil
	}
	f, err := b.cache.Open(p.SHA256)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if strings.HasSuffix(p.Path, ".rpm") {
		said, err = license.OfRPM(f)
	} else {
		said, err = license.OfDeb(ctx, f)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		b.log.Warn("licenses are not known", "package", p.Name, "version", p.Version, "target", p.Target, "reason", err)
		return nil, nil
	}
	if err := b.cache.Remember(licenses, p.SHA256, said); err != nil {
		return nil, fmt.Errorf("licenses of %s: %w", p.Name, err)
	}
	return said, nil
}
