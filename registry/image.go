package registry

import (
	"errors"
	"fmt"
	"strings"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/ocilayout"
)

// image is an image of the bundle, or another artifact to push.
type image struct {
	kind            string
	ref, repository string // as upstream names it, and its repository there
	tag             string // empty if it is named by its digest alone
	layout          *ocilayout.Layout
	root            ocilayout.Manifest
	blobs           []ocispec.Descriptor     // of all platforms, each once
	files           map[digest.Digest]string // paths of its layers in the archive, instead of a layout
	made            map[digest.Digest][]byte // manifest and configuration that no file has
	there           map[digest.Digest]bool   // manifests of the index that the registry's tag leads to, for an archive that lacks some
	led             string                   // digest that the registry's tag leads to, if that is a part of this image or all of it
	attached        string                   // digest of what it is attached to, if it is a signature, an SBOM or an attestation
}

// blobPath is the path of a blob in the archive.
func (i image) blobPath(d digest.Digest) string {
	if i.layout == nil {
		return i.files[d]
	}
	return i.layout.Blob(d)
}

// document returns an index or a manifest of the image.
func (i image) document(d digest.Digest) ([]byte, error) {
	if text, ok := i.made[d]; ok {
		return text, nil
	}
	return i.layout.Document(d)
}

// target is what the image is pushed as: its tag, or else its digest.
func (i image) target() string {
	if i.tag != "" {
		return i.tag
	}
	return i.root.Digest.String()
}

// readImages reads the manifests of all images of packages of an archive, and of what is attached to them. An image that several packages have is
// listed once, with the most platforms.
func readImages(a *bundle.Archive, packages []bundle.PackageInfo) ([]image, error) {
	var all []image
	seen, at := make(map[string]string), make(map[string]int)
	for _, p := range packages {
		layout, err := ocilayout.OfPackage(a, p)
		if err != nil {
			return nil, err
		}
		for _, named := range layout.Images {
			i, err := newImage(a, layout, named)
			if err != nil {
				return nil, fmt.Errorf("package %s %s: image %s: %w", p.Name, p.Version, named.Ref, err)
			}
			key, digest := i.repository+":"+i.target(), i.root.Digest.String()
			if other, ok := seen[key]; ok && other != digest {
				return nil, fmt.Errorf("%s is %s in one package and %s in another; push them as two bundles under two prefixes", i.ref, other, digest)
			} else if ok {
				if n, image := at[key]; image && i.root.Absent < all[n].root.Absent { // packages may have it for different platforms
					all[n] = i
				}
				continue
			}
			seen[key], at[key] = digest, len(all)
			all = append(all, i)
		}
		attached, err := readAttached(a, layout, seen)
		if err != nil {
			return nil, fmt.Errorf("package %s %s: %w", p.Name, p.Version, err)
		}
		all = append(all, attached...)
	}
	return all, nil
}

// readAttached reads what is attached to the images of a layout. seen has the digests of all that was read before.
func readAttached(a *bundle.Archive, layout *ocilayout.Layout, seen map[string]string) (all []image, err error) {
	list, err := layout.Attached()
	if err != nil {
		return nil, err
	}
	for _, one := range list {
		i, err := newImage(a, layout, one)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", one.Ref, err)
		}
		i.kind, i.attached = KindAttachment, one.Subject
		digest := i.root.Digest.String()
		if other, ok := seen[i.repository+":"+i.target()]; ok && other != digest {
			i.tag = "" // packages of different days may have different signatures under one tag
		}
		if key := i.repository + ":" + i.target(); seen[key] == "" {
			seen[key] = digest
			all = append(all, i)
		}
	}
	return all, nil
}

func newImage(a *bundle.Archive, layout *ocilayout.Layout, from ocilayout.Image) (image, error) {
	i := image{kind: KindImage, ref: from.Ref, layout: layout}
	named, err := reference.ParseNormalizedNamed(i.ref)
	if err != nil {
		return i, err
	}
	i.repository = named.Name()
	if tagged, ok := named.(reference.Tagged); ok {
		i.tag = tagged.Tag()
	}
	if i.root, err = layout.Read(from.Target); err != nil {
		return i, err
	}
	for _, blob := range i.root.Blobs() {
		if e, ok := a.Entry(layout.Blob(blob.Digest)); ok && e.Size == blob.Size {
			i.blobs = append(i.blobs, ocispec.Descriptor{MediaType: blob.MediaType, Digest: blob.Digest, Size: blob.Size})
		} else if len(blob.URLs) == 0 && !strings.Contains(blob.MediaType, "foreign") { // those are fetched from elsewhere
			return i, i.lacks(a, blob)
		}
	}
	return i, nil
}

// lacks explains why the archive does not have a layer.
func (i image) lacks(a *bundle.Archive, d ocispec.Descriptor) error {
	if _, ok := a.LeanLayer(i.layout.Blob(d.Digest)); ok {
		return errors.New("its layers were compressed again (--lean) or are made by patches (--patch), and registries need them as upstream has them; push an archive that was made without these flags")
	}
	return fmt.Errorf("the archive lacks %s", d.Digest)
}
