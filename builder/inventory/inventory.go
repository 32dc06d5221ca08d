// Package inventory lists the software in a bundle down to the packages inside of image layers, and the Go modules that are linked into
// programs. It reads what is visible in each image: files that a higher layer deletes or replaces do not count.
//
// Nothing is unpacked or run. Content is verified against the index of the bundle. Layers are hostile until proven otherwise: sizes, paths,
// links and counts are bounded, and an image that exceeds a bound is listed as unknown. An image without a package database and without Go
// programs is unknown, too.
package inventory

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/builder/component"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/fips"
)

// Inventory is the software in a bundle. Lists are sorted.
type Inventory struct {
	Images []Image `json:"images"`
	// Files are the programs, archives and host packages outside of images.
	Files []File `json:"files,omitempty"`
}

// Image is an image for one platform.
type Image struct {
	Ref      string `json:"ref"`
	Digest   string `json:"digest"` // of the reference: an index or a manifest
	Platform string `json:"platform"`
	Manifest string `json:"manifest"` // digest
	// System is the distribution, such as debian-12, or empty.
	System string `json:"system,omitempty"`
	// Layers are digests, the lowest first.
	Layers   []string  `json:"layers,omitempty"`
	Packages []Package `json:"packages,omitempty"`
	Programs []Program `json:"programs,omitempty"`
	// Licenses is what the image itself says, by the label org.opencontainers.image.licenses.
	Licenses []string `json:"licenses,omitempty"`
	// Texts are the files with licenses and notices.
	Texts []Text `json:"texts,omitempty"`
	// Unknown says why content of the image may be missing here. It is empty if all of it is listed.
	Unknown []string `json:"unknown,omitempty"`
}

// Package is an operating system package in an image.
type Package struct {
	component.Component
	Path  string `json:"path"`  // of the database that lists it
	Layer string `json:"layer"` // digest of the layer with that database
	// Texts are the digests of the texts that belong to it.
	Texts []string `json:"texts,omitempty"`
}

// Program is a Go program.
type Program struct {
	Path    string                `json:"path"`              // in its image, archive or package
	Layer   string                `json:"layer,omitempty"`   // digest of the layer with it
	Main    string                `json:"main,omitempty"`    // its main package
	Modules []component.Component `json:"modules,omitempty"` // the standard library included
	// FIPS is the module for FIPS 140-3.
	FIPS fips.Module `json:"fips140,omitzero"`
}

// File is a file of the bundle outside of images that is a package or has programs.
type File struct {
	Path   string `json:"path"` // in the bundle
	SHA256 string `json:"sha256"`
	// Package is set for a package of an operating system.
	Package  *component.Component `json:"package,omitempty"`
	Programs []Program            `json:"programs,omitempty"`
	Texts    []Text               `json:"texts,omitempty"`
	// Unknown says why content may be missing here.
	Unknown []string `json:"unknown,omitempty"`
}

// Text is a file with the text of a license or a notice.
type Text struct {
	Path   string `json:"path"`            // in its image, archive or package
	Layer  string `json:"layer,omitempty"` // digest of the layer with it
	SHA256 string `json:"sha256"`          // of the file, in hex
	Size   int64  `json:"size"`            // bytes
	// Module is set if the folder of the file is named after a Go module that is linked into a program beside it.
	Module string `json:"module,omitempty"`
	// Licenses are the names of the licenses whose words it has. A copyright file of Debian has none here: its package has them.
	Licenses []string `json:"licenses,omitempty"`
}

// Options says what to do beside listing.
type Options struct {
	// Keep gets the content of each text that is found, also of those that a higher layer hides. It may be called from several goroutines,
	// and for the same content again. nil keeps none.
	Keep func(sha256 string, text []byte) error
}

// workers is how many images or files are read at once. Each may need the memory of a decompressor and of one database.
const workers = 2

// Read lists the software in a bundle or a package.
func Read(ctx context.Context, from *bundle.Archive, o Options) (*Inventory, error) {
	if err := from.CheckBase(); err != nil {
		return nil, err
	}
	images, err := imagesOf(from)
	if err != nil {
		return nil, err
	}
	files := filesOf(from)
	found := make([]*File, len(files))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	run := func(do func(s *scanner) error) {
		group.Go(func() error {
			s := &scanner{ctx: ctx, from: from, keep: o.Keep}
			return errors.Join(do(s), s.spool.Close())
		})
	}
	for _, shared := range byFirstLayer(images) {
		run(func(s *scanner) error { return s.images(shared) })
	}
	for i, e := range files {
		run(func(s *scanner) (err error) {
			found[i], err = s.file(e)
			return err
		})
	}
	inventory := &Inventory{Images: []Image{}}
	err = group.Wait()
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		if f != nil {
			inventory.Files = append(inventory.Files, *f)
		}
	}
	for _, image := range images {
		inventory.Images = append(inventory.Images, image.Image)
	}
	slices.SortFunc(inventory.Images, func(a, b Image) int {
		return cmp.Or(cmp.Compare(a.Ref, b.Ref), cmp.Compare(a.Platform, b.Platform), cmp.Compare(a.Manifest, b.Manifest))
	})
	slices.SortFunc(inventory.Files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return inventory, nil
}

// filesOf lists the entries outside of images, each content once.
func filesOf(from *bundle.Archive) []bundle.Entry {
	var all []bundle.Entry
	seen := make(map[string]bool)
	for _, e := range from.Index.Entries {
		if !from.Index.OfImage(e) && !seen[e.SHA256] && path.Base(e.Path) != bundle.IndexName {
			seen[e.SHA256] = true
			all = append(all, e)
		}
	}
	return all
}
