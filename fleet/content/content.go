// Package content finds the packages that carry the images of works, and fetches them.
package content

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog/packages"
)

// Package is a package that carries images.
type Package struct {
	Name, Version string
	*bundle.Archive
}

// Find opens the packages of a store that carry images, those of newer versions first. Its signers must have signed them. missing are
// images that no package carries. Call Close on each package, also after an error.
func Find(ctx context.Context, from *packages.Source, images []string) (found []Package, missing []string, err error) {
	list, err := from.List(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("list the packages of the store: %w", err)
	}
	wanted := make(map[string]bool)
	for _, image := range images {
		wanted[image] = true
	}
	for i := len(list.Packages) - 1; i >= 0 && len(wanted) > 0; i-- { // newer versions come later
		one := list.Packages[i]
		object, err := from.Get(ctx, one.Key)
		if err != nil {
			return found, nil, fmt.Errorf("open package %s: %w", one.Key, err)
		}
		a, err := bundle.OpenSource(object)
		if err != nil {
			return found, nil, fmt.Errorf("open package %s: %w", one.Key, err)
		}
		before := len(wanted)
		for _, name := range NamesOf(a) {
			delete(wanted, name)
		}
		if len(wanted) == before {
			if err := a.Close(); err != nil {
				return found, nil, err
			}
			continue
		}
		found = append(found, Package{one.Name, one.Version, a})
		if err := from.Trust(one.Key, a); err != nil {
			return found, nil, err
		}
	}
	return found, slices.Sorted(maps.Keys(wanted)), nil
}

// Close closes packages.
func Close(found []Package) (err error) {
	for _, p := range found {
		err = errors.Join(err, p.Close())
	}
	return err
}

// NamesOf returns the spellings of an archive's images that a pod may use.
func NamesOf(a *bundle.Archive) (names []string) {
	for _, p := range a.Index.Packages {
		for _, image := range p.Images {
			short := strings.TrimPrefix(image.Ref, "docker.io/")
			names = append(names, image.Ref, short, strings.TrimPrefix(short, "library/"))
			if name, _, pinned := strings.Cut(image.Ref, "@"); pinned {
				names = append(names, name)
			} else {
				names = append(names, image.Ref+"@"+image.Digest)
			}
		}
	}
	return names
}
