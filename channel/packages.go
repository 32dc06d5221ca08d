package channel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/store"
	"github.com/sealift/sealift/store/release"
)

// LeftOut is a published package that a channel cannot apply.
type LeftOut struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Reason  string `json:"reason"`
}

// IndexPackages makes an index of the packages that are published in a store, so that one store serves installers and
// channels. Manifests are relative to the store, unless base says where it is. A package whose objects need its
// install.sh is left out; each is opened and rendered to find out, without reading its images.
func IndexPackages(ctx context.Context, packages store.Store, name string, base *url.URL) (Index, []LeftOut, error) {
	published, err := release.In(packages, "").Index(ctx)
	if err != nil {
		return Index{}, nil, err
	}
	index := Index{Name: name}
	left := []LeftOut{}
	for _, p := range published.Packages {
		if err := tryPackage(ctx, packages, p); err != nil {
			if ctx.Err() != nil {
				return Index{}, nil, context.Cause(ctx)
			}
			left = append(left, LeftOut{Name: p.Name, Version: p.Version, Reason: err.Error()})
			continue
		}
		e := Entry{Name: p.Name, Version: &p.Version, Manifest: (&url.URL{Path: p.Key}).String(), ManifestHash: p.Digest}
		if _, err := parseVersion(p.Version); err != nil {
			// An index with such a version would be refused as a whole; as an id it still distinguishes versions.
			e.Version, e.ID = nil, p.Version
		}
		if base != nil {
			e.Manifest = base.JoinPath(p.Key).String()
		}
		index.Entries = append(index.Entries, e)
	}
	slices.SortStableFunc(index.Entries, compareEntries)
	return index, left, nil
}

// compareEntries puts older versions first, since of equals the later counts, and those without a version before all.
func compareEntries(a, b Entry) int {
	switch {
	case a.Name != b.Name:
		return cmp.Compare(a.Name, b.Name)
	case a.Version == nil && b.Version == nil:
		return cmp.Compare(a.ID, b.ID)
	case a.Version == nil:
		return -1
	case b.Version == nil:
		return 1
	}
	before, _ := parseVersion(*a.Version) // both were read before
	after, _ := parseVersion(*b.Version)
	return before.Compare(after)
}

// tryPackage returns why the objects of a package cannot be read without a host.
func tryPackage(ctx context.Context, packages store.Store, p release.Package) error {
	o, err := packages.Get(ctx, p.Key)
	if err != nil {
		return err
	}
	defer o.Close()
	archive, err := bundle.OpenPackage(o, o.Size())
	if err != nil {
		return err
	}
	if archive.Digest != p.Digest {
		return fmt.Errorf("the store's index is about another package: %w", &bundle.DigestError{Path: bundle.IndexName, Got: archive.Digest, Want: p.Digest})
	}
	objs, err := buildPackage(ctx, archive)
	if err == nil && len(objs) == 0 {
		err = errors.New("its kustomization has no objects")
	}
	return err
}
