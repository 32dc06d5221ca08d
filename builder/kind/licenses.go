package kind

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/builder/license"
	"github.com/sealift/sealift/builder/sbom"
	"github.com/sealift/sealift/bundle"
)

// licensesAtOnce is how many packages are read at once: each may take 8 MiB for its decompressor.
const licensesAtOnce = 2

// licenses is the kind of cache fact that holds the licenses of a package. Its number changes with the way in which that is
// read.
const licenses = "licenses-1"

func (p *hostPackagePart) materials(ctx context.Context, described bundle.Package, s *sbom.Subject) error {
	s.HostPackages = make([]sbom.HostPackage, len(described.Contents.HostPackages))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(licensesAtOnce)
	for i, one := range described.Contents.HostPackages {
		group.Go(func() (err error) {
			s.HostPackages[i] = sbom.HostPackage{HostPackage: one}
			s.HostPackages[i].Licenses, err = p.kind.licenses(ctx, one)
			return err
		})
	}
	return group.Wait()
}

// licenses reads the licenses of a host package, once for each content. An unreadable package has none: the build continues
// without its licenses.
func (k *hostPackageKind) licenses(ctx context.Context, p bundle.HostPackage) ([]string, error) {
	var said []string
	if k.options.Cache.Recall(licenses, p.SHA256, &said) {
		return said, nil
	}
	f, err := k.options.Cache.Open(p.SHA256)
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
		k.options.Log.Warn("licenses are not known", "package", p.Name, "version", p.Version, "target", p.Target, "reason", err)
		return nil, nil
	}
	if err := k.options.Cache.Remember(licenses, p.SHA256, said); err != nil {
		return nil, fmt.Errorf("licenses of %s: %w", p.Name, err)
	}
	return said, nil
}
