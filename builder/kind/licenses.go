package kind

import (
	"context"
	"fmt"
	"strings"
	"sync"

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

// HostPackages returns the digests of the host packages.
func (r Resolution) HostPackages() map[string]bool {
	digests := make(map[string]bool)
	for _, p := range only[*hostPackagePart](r.parts) {
		for _, one := range p.HostPackages {
			digests[one.SHA256] = true
		}
	}
	return digests
}

// Licenses returns the licenses of host packages, as SPDX expressions by target and name. It leaves out the packages with the given
// digests. It fetches those whose licenses the cache does not know.
func (r Resolution) Licenses(ctx context.Context, without map[string]bool) (map[string]string, error) {
	var mu sync.Mutex
	found := make(map[string]string)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(licensesAtOnce)
	for _, p := range only[*hostPackagePart](r.parts) {
		for _, one := range p.HostPackages {
			if without[one.SHA256] {
				continue
			}
			group.Go(func() error {
				if !p.kind.options.Cache.Recall(licenses, one.SHA256, new([]string)) {
					if _, err := p.kind.source.Fetch(ctx, one); err != nil {
						return err
					}
				}
				said, err := p.kind.licenses(ctx, one.Describe(packagesDir))
				expression, _ := license.Expression(said)
				mu.Lock()
				defer mu.Unlock()
				found[one.Target+" "+one.Name] = expression
				return err
			})
		}
	}
	return found, group.Wait()
}
