package registry

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle"
)

// maxManifest bounds a JSON document of a layout; registries refuse more than 4 MiB.
const maxManifest = 4 << 20

// maxDepth bounds indexes within indexes.
const maxDepth = 8

// image is one of the bundle's images, or something else that is pushed like one.
type image struct {
	kind            string
	ref, repository string // as upstream names it, and its repository there
	tag             string // empty if it is named by its digest alone
	dir             string // its OCI layout in the archive
	root            manifest
	file            string                   // path of its only layer in the archive, instead of a layout
	made            map[digest.Digest][]byte // manifest and configuration that no file has
	attached        string                   // digest of what it is attached to, if it is a signature, an SBOM or an attestation
}

// manifest is an index or the manifest of one platform, with everything below.
type manifest struct {
	ocispec.Descriptor
	index    bool
	children []manifest
	blobs    []ocispec.Descriptor
	absent   int // manifests of platforms that the bundle does not have
	subject  *ocispec.Descriptor
}

func (i image) blobPath(d ocispec.Descriptor) string {
	if i.file != "" {
		return i.file
	}
	return path.Join(i.dir, ocispec.ImageBlobsDir, d.Digest.Algorithm().String(), d.Digest.Encoded())
}

// target is what the image is pushed as: its tag, or else its digest.
func (i image) target() string {
	if i.tag != "" {
		return i.tag
	}
	return i.root.Digest.String()
}

// blobs lists the blobs of all platforms, each once.
func (i image) blobs() (all []ocispec.Descriptor) {
	seen := make(map[string]bool)
	var walk func(manifest)
	walk = func(m manifest) {
		for _, d := range m.blobs {
			if !seen[d.Digest.String()] {
				seen[d.Digest.String()] = true
				all = append(all, d)
			}
		}
		for _, child := range m.children {
			walk(child)
		}
	}
	walk(i.root)
	return all
}

// readImages reads the manifests of all images of an archive. An image that several packages have is listed once.
func readImages(a *bundle.Archive) ([]image, error) {
	var all []image
	seen := make(map[string]string)
	for _, p := range a.Index.Packages {
		if len(p.Images) == 0 {
			continue
		}
		dir := path.Join(p.Dir(), "images")
		var layout ocispec.Index
		if _, ok := a.Entry(path.Join(dir, ocispec.ImageIndexFile)); !ok {
			return nil, fmt.Errorf("package %s %s has its images as archives of docker, which have other digests than upstream's; build it without --image-format", p.Name, p.Version)
		}
		if err := a.ReadJSON(path.Join(dir, ocispec.ImageIndexFile), maxManifest, &layout); err != nil {
			return nil, err
		}
		for _, d := range layout.Manifests {
			i, err := newImage(a, dir, d)
			if err != nil {
				return nil, fmt.Errorf("package %s %s: %w", p.Name, p.Version, err)
			}
			key := i.repository + ":" + i.target()
			if other, ok := seen[key]; ok && other != d.Digest.String() {
				return nil, fmt.Errorf("%s is %s in one package and %s in another; push them as two bundles under two prefixes", i.ref, other, d.Digest)
			} else if ok {
				continue
			}
			seen[key] = d.Digest.String()
			all = append(all, i)
		}
		attached, err := readAttached(a, dir, seen)
		if err != nil {
			return nil, fmt.Errorf("package %s %s: %w", p.Name, p.Version, err)
		}
		all = append(all, attached...)
	}
	return all, nil
}

// readAttached reads what is attached to the images of a package. seen has the digests of all that was read before.
func readAttached(a *bundle.Archive, dir string, seen map[string]string) (all []image, err error) {
	name := path.Join(dir, bundle.ReferrersName)
	if _, ok := a.Entry(name); !ok {
		return nil, nil
	}
	var list ocispec.Index
	if err := a.ReadJSON(name, maxManifest, &list); err != nil {
		return nil, err
	}
	for _, d := range list.Manifests {
		i, err := newImage(a, dir, d)
		if err != nil {
			return nil, err
		}
		i.kind = KindAttachment
		if i.attached = d.Annotations[bundle.SubjectAnnotation]; i.attached == "" {
			return nil, fmt.Errorf("%s does not say what %s is attached to", name, i.ref)
		}
		if other, ok := seen[i.repository+":"+i.target()]; ok && other != d.Digest.String() {
			i.tag = "" // packages of different days may have different signatures under one tag
		}
		if key := i.repository + ":" + i.target(); seen[key] == "" {
			seen[key] = d.Digest.String()
			all = append(all, i)
		}
	}
	return all, nil
}

func newImage(a *bundle.Archive, dir string, d ocispec.Descriptor) (image, error) {
	i := image{kind: KindImage, ref: d.Annotations["io.containerd.image.name"], dir: dir}
	if i.ref == "" {
		i.ref = d.Annotations[ocispec.AnnotationRefName]
	}
	named, err := reference.ParseNormalizedNamed(i.ref)
	if err != nil {
		return i, fmt.Errorf("name of an image: %w", err)
	}
	i.repository = named.Name()
	if tagged, ok := named.(reference.Tagged); ok {
		i.tag = tagged.Tag()
	}
	i.root, err = i.read(a, ocispec.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size}, 0)
	return i, err
}

// lacks explains why the archive does not have a layer.
func (i image) lacks(a *bundle.Archive, d ocispec.Descriptor) error {
	for _, e := range a.Below(i.dir) {
		if e.Layer != nil && e.Layer.Blob == d.Digest.Encoded() {
			return fmt.Errorf("image %s: its layers were compressed again (--lean), and registries need them as upstream has them; push an archive that was made without --lean", i.ref)
		}
	}
	return fmt.Errorf("image %s: the archive lacks %s", i.ref, d.Digest)
}

// read reads a manifest and those below it.
func (i image) read(a *bundle.Archive, d ocispec.Descriptor, depth int) (manifest, error) {
	m := manifest{Descriptor: d}
	if err := d.Digest.Validate(); err != nil || depth > maxDepth {
		return m, errors.Join(fmt.Errorf("image %s has a manifest that cannot be read", i.ref), err)
	}
	var content struct {
		MediaType         string
		Manifests, Layers []ocispec.Descriptor
		Config, Subject   *ocispec.Descriptor
	}
	if err := a.ReadJSON(i.blobPath(d), maxManifest, &content); err != nil {
		return m, fmt.Errorf("image %s: %w", i.ref, err)
	}
	if content.MediaType != "" { // registries compare it with what they are told
		m.MediaType, d.MediaType = content.MediaType, content.MediaType
	}
	m.subject = content.Subject
	if m.index = d.MediaType == ocispec.MediaTypeImageIndex || d.MediaType == string(types.DockerManifestList); m.index {
		for _, child := range content.Manifests {
			if _, ok := a.Entry(i.blobPath(child)); !ok {
				m.absent++
				continue
			}
			read, err := i.read(a, ocispec.Descriptor{MediaType: child.MediaType, Digest: child.Digest, Size: child.Size, Platform: child.Platform}, depth+1)
			if err != nil {
				return m, err
			}
			m.children = append(m.children, read)
		}
		return m, nil
	}
	if content.Config == nil || d.MediaType != ocispec.MediaTypeImageManifest && d.MediaType != string(types.DockerManifestSchema2) {
		return m, fmt.Errorf("image %s: %s has the unknown media type %q", i.ref, d.Digest, d.MediaType)
	}
	for _, blob := range append([]ocispec.Descriptor{*content.Config}, content.Layers...) {
		if err := blob.Digest.Validate(); err != nil {
			return m, fmt.Errorf("image %s: %w", i.ref, err)
		}
		if e, ok := a.Entry(i.blobPath(blob)); ok && e.Size == blob.Size {
			m.blobs = append(m.blobs, ocispec.Descriptor{MediaType: blob.MediaType, Digest: blob.Digest, Size: blob.Size})
		} else if len(blob.URLs) == 0 && !strings.Contains(blob.MediaType, "foreign") { // those are fetched from elsewhere
			return m, i.lacks(a, blob)
		}
	}
	return m, nil
}
