// Package content finds the packages that carry the images of works, and fetches them.
package content

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/store/release"
)

// Package is a package that carries images.
type Package struct {
	Name, Version string
	*bundle.Archive
}

// Found has the packages of a store that carry the images. Call Close.
type Found struct {
	Packages []Package
	// Digests has the digest of each image that was found, "" if its package does not know it.
	Digests map[string]string
	// Missing are images that none of the packages carries.
	Missing []string
	// Unusable names packages that may contain an image, and why they are not used: they are damaged, or not signed.
	Unusable []error
}

// Find opens the listed packages that contain images, those of newer versions first. Signers of the store must have signed them. A package
// that cannot be used does not end the search.
func Find(ctx context.Context, from *packages.Source, listed []release.Package, images []string) (found Found, err error) {
	found.Digests = make(map[string]string)
	wanted := make(map[string]bool)
	for _, image := range images {
		wanted[image] = true
	}
	for i := len(listed) - 1; i >= 0 && len(wanted) > 0; i-- { // newer versions are later in the list
		a, carried, err := open(ctx, from, listed[i].Key, wanted)
		if err != nil {
			if away := errors.Join(ctx.Err(), from.Reachable(ctx)); away != nil {
				return found, fmt.Errorf("read the packages of the store: %w", away)
			}
			found.Unusable = append(found.Unusable, err)
			continue
		}
		for name, digest := range carried {
			found.Digests[name] = digest
			delete(wanted, name)
		}
		if a != nil {
			found.Packages = append(found.Packages, Package{listed[i].Name, listed[i].Version, a})
		}
	}
	found.Missing = slices.Sorted(maps.Keys(wanted))
	return found, nil
}

// open opens a package, and returns the wanted images that it carries, with their digests. Without any, it returns no archive.
func open(ctx context.Context, from *packages.Source, key string, wanted map[string]bool) (a *bundle.Archive, carried map[string]string, err error) {
	object, err := from.Get(ctx, key)
	if err == nil {
		a, err = bundle.OpenSource(object)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("package %s: %w", key, err)
	}
	carried = NamesOf(a)
	maps.DeleteFunc(carried, func(name, _ string) bool { return !wanted[name] })
	if len(carried) > 0 {
		err = from.Trust(key, a)
	}
	if err != nil || len(carried) == 0 {
		return nil, nil, errors.Join(err, a.Close())
	}
	return a, carried, nil
}

// Err is nil if it is certain which images no package carries: none, or all packages could be read.
func (f Found) Err() error {
	if len(f.Missing) == 0 || len(f.Unusable) == 0 {
		return nil
	}
	return fmt.Errorf("no usable package contains %s; one of these may, so publish it again, or remove it from the store: %w",
		strings.Join(f.Missing, ", "), errors.Join(f.Unusable...))
}

// Close closes the packages.
func (f Found) Close() (err error) {
	for _, p := range f.Packages {
		err = errors.Join(err, p.Close())
	}
	return err
}

// NamesOf returns the spellings of an archive's images that a pod may use, with the digests of the images, "" of those without a valid one.
func NamesOf(a *bundle.Archive) map[string]string {
	names := make(map[string]string)
	for _, p := range a.Index.Packages {
		for _, image := range p.Images {
			if digest.Digest(image.Digest).Validate() != nil {
				image.Digest = ""
			}
			for _, spelling := range spellings(image) {
				names[spelling] = image.Digest
			}
		}
	}
	return names
}

// spellings are with and without what Docker leaves out, each with the tag, with the digest, and with both.
func spellings(image bundle.Image) (all []string) {
	named, err := reference.ParseNormalizedNamed(image.Ref)
	if err != nil {
		return []string{image.Ref}
	}
	tag := ""
	if t, ok := named.(reference.Tagged); ok {
		tag = ":" + t.Tag()
	}
	for _, name := range []string{named.Name(), strings.TrimPrefix(named.Name(), "docker.io/"), reference.FamiliarName(named)} {
		all = append(all, name+tag)
		if tag == ":latest" {
			all = append(all, name)
		}
		if image.Digest != "" {
			all = append(all, name+"@"+image.Digest, name+tag+"@"+image.Digest)
		}
	}
	return append(all, image.Ref)
}
