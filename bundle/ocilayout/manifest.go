package ocilayout

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

const (
	// maxDocument bounds a document, in bytes. Registries refuse more.
	maxDocument = 4 << 20
	// maxDepth bounds indexes within indexes.
	maxDepth = 8
	// maxObjects bounds the objects in a document: {} takes a hundred times its size in memory.
	maxObjects = 1 << 16
	// maxDocuments and maxTotal bound the documents of one image together: how many there are, and their bytes.
	maxDocuments, maxTotal = 4096, 16 << 20
)

// Manifest is an index, or the manifest of an image, with all documents below it.
type Manifest struct {
	// Descriptor has the media type in the document, if it has one.
	ocispec.Descriptor
	Index    bool
	Children []Manifest // of an index: those that the archive has
	Absent   int        // of an index: how many the archive lacks, usually for other platforms
	Config   ocispec.Descriptor
	Layers   []ocispec.Descriptor
	Subject  *ocispec.Descriptor // what the manifest is attached to, or nil
	Notes    map[string]string   // the annotations of the document itself
}

// document has the fields of an index and of a manifest.
type document struct {
	MediaType string               `json:"mediaType"`
	Manifests []ocispec.Descriptor `json:"manifests"`
	Config    *ocispec.Descriptor  `json:"config"`
	Layers    []ocispec.Descriptor `json:"layers"`
	Subject   *ocispec.Descriptor  `json:"subject"`
	// Annotations say something about the image, such as its licenses.
	Annotations map[string]string `json:"annotations"`
}

// Read reads a document and all below it. A manifest that the archive lacks is fs.ErrNotExist, but only counted if an index names it.
func (l *Layout) Read(d ocispec.Descriptor) (Manifest, error) {
	w := walk{layout: l}
	return w.read(d, 0)
}

// walk reads the documents of one image.
type walk struct {
	layout       *Layout
	count, bytes int
}

func (w *walk) read(d ocispec.Descriptor, depth int) (Manifest, error) {
	m := Manifest{Descriptor: bare(d)}
	if depth > maxDepth {
		return m, fmt.Errorf("%w: %s: more than %d indexes within each other", ErrDocument, d.Digest, maxDepth)
	}
	data, err := w.layout.Document(d.Digest)
	if err != nil {
		return m, err
	}
	w.count, w.bytes = w.count+1, w.bytes+len(data)
	if w.count > maxDocuments || w.bytes > maxTotal {
		return m, fmt.Errorf("%w: %s: the image has more than %d documents, or %d bytes of them", ErrDocument, d.Digest, maxDocuments, maxTotal)
	}
	doc, err := parse(data)
	if err == nil {
		m.Index, m.MediaType, err = doc.kind(d.MediaType)
	}
	if err != nil {
		return m, fmt.Errorf("%s: %w", d.Digest, err)
	}
	m.Subject, m.Notes = doc.Subject, doc.Annotations
	if doc.Config != nil {
		m.Config, m.Layers = *doc.Config, doc.Layers
	}
	for _, child := range doc.Manifests {
		if !w.layout.has(w.layout.Blob(child.Digest)) {
			m.Absent++
			continue
		}
		read, err := w.read(child, depth+1)
		if err != nil {
			return m, err
		}
		m.Children = append(m.Children, read)
	}
	return m, nil
}

// parse reads an index or a manifest. Its descriptors have valid digests and sizes.
func parse(data []byte) (doc document, err error) {
	if n := bytes.Count(data, []byte("{")); n > maxObjects {
		return doc, fmt.Errorf("%w: has %d objects, and the limit is %d", ErrDocument, n, maxObjects)
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return doc, fmt.Errorf("%w: is not JSON of an index or a manifest: %w", ErrDocument, err)
	}
	all := slices.Concat(doc.Manifests, doc.Layers)
	for _, one := range []*ocispec.Descriptor{doc.Config, doc.Subject} {
		if one != nil {
			all = append(all, *one)
		}
	}
	for _, d := range all {
		if err := d.Digest.Validate(); err != nil {
			return doc, fmt.Errorf("%w: names the digest %q: %w", ErrDocument, d.Digest, err)
		}
		if d.Size < 0 {
			return doc, fmt.Errorf("%w: names %s with %d bytes", ErrDocument, d.Digest, d.Size)
		}
	}
	return doc, nil
}

// kind reports whether a document is an index, and its media type. said is the type of its descriptor. A document that other readers
// may take for something else is an error (OCI image-spec, considerations.md).
func (d document) kind(said string) (index bool, mediaType string, err error) {
	if mediaType = d.MediaType; mediaType == "" {
		mediaType = said
	}
	if mediaType == "" && d.Config == nil {
		mediaType = ocispec.MediaTypeImageIndex
	} else if mediaType == "" {
		mediaType = ocispec.MediaTypeImageManifest
	}
	index = mediaType == ocispec.MediaTypeImageIndex || mediaType == string(types.DockerManifestList)
	switch {
	case !index && mediaType != ocispec.MediaTypeImageManifest && mediaType != string(types.DockerManifestSchema2):
		err = fmt.Errorf("%w: has the unknown media type %q", ErrDocument, mediaType)
	case index && (d.Config != nil || len(d.Layers) > 0):
		err = fmt.Errorf("%w: is an index with the fields of a manifest", ErrDocument)
	case !index && (d.Config == nil || len(d.Manifests) > 0):
		err = fmt.Errorf("%w: is a manifest without a configuration, or with the fields of an index", ErrDocument)
	}
	return index, mediaType, err
}

// All lists a manifest and those below it, from above.
func (m Manifest) All() []Manifest {
	all := []Manifest{m}
	for _, child := range m.Children {
		all = append(all, child.All()...)
	}
	return all
}

// Blobs lists the configurations and layers of a manifest and of those below it, each once. The archive may lack some.
func (m Manifest) Blobs() (blobs []ocispec.Descriptor) {
	seen := make(map[digest.Digest]bool)
	for _, one := range m.All() {
		if one.Index {
			continue
		}
		for _, d := range append([]ocispec.Descriptor{one.Config}, one.Layers...) {
			if !seen[d.Digest] {
				seen[d.Digest] = true
				blobs = append(blobs, d)
			}
		}
	}
	return blobs
}

// Licenses returns what an image says about its licenses: the label org.opencontainers.image.licenses of its configuration, or the annotation
// of that name. It returns "" if it says nothing, and if the archive lacks the configuration.
func (l *Layout) Licenses(m Manifest) (string, error) {
	image, err := l.config(m)
	if err != nil || image == nil {
		return "", err
	}
	return cmp.Or(image.Config.Labels[ocispec.AnnotationLicenses], m.Notes[ocispec.AnnotationLicenses]), nil
}

// DiffIDs returns the digests of the unpacked layers of an image, one for each. It returns nil for an index, for something else
// than an image, such as an attestation, and if the archive lacks the configuration.
func (l *Layout) DiffIDs(m Manifest) ([]digest.Digest, error) {
	image, err := l.config(m)
	if err != nil || image == nil {
		return nil, err
	}
	ids := image.RootFS.DiffIDs
	if len(ids) != len(m.Layers) {
		return nil, nil
	}
	for _, id := range ids {
		err = errors.Join(err, id.Validate())
	}
	if err != nil {
		return nil, fmt.Errorf("%w: configuration %s: %w", ErrDocument, m.Config.Digest, err)
	}
	return ids, nil
}

// config reads the configuration of an image. It returns nil for an index, for something else than an image, and if the archive lacks the
// configuration.
func (l *Layout) config(m Manifest) (*ocispec.Image, error) {
	if m.Index || len(m.Layers) == 0 || !isConfig(m.Config.MediaType) || !l.has(l.Blob(m.Config.Digest)) {
		return nil, nil
	}
	data, err := l.Document(m.Config.Digest)
	if err != nil {
		return nil, err
	}
	image := new(ocispec.Image)
	if err := json.Unmarshal(data, image); err != nil {
		return nil, fmt.Errorf("%w: configuration %s: %w", ErrDocument, m.Config.Digest, err)
	}
	return image, nil
}

// Layer is a layer of an image.
type Layer struct {
	Image      Image
	Manifest   Manifest           // that names the layer
	Descriptor ocispec.Descriptor // as the manifest has it
	FromTop    int                // its place; 1 is the topmost
	DiffID     digest.Digest      // of its unpacked form
	Path       string             // in the archive, which may lack it
}

// IsTar reports whether the layer is a tar: plain, or compressed with gzip or zstd. An encrypted layer is not, and neither is an attestation.
func (l Layer) IsTar() bool {
	switch types.MediaType(l.Descriptor.MediaType) {
	case types.OCIUncompressedLayer, types.OCILayer, types.OCILayerZStd, types.DockerUncompressedLayer, types.DockerLayer:
		return true
	}
	return false
}

// Layers lists the layers of all images, as far as DiffIDs knows them. Layers that images share are listed for each.
func (l *Layout) Layers() (list []Layer, err error) {
	for _, image := range l.Images {
		root, err := l.Read(image.Target)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", image.Ref, err)
		}
		for _, m := range root.All() {
			ids, err := l.DiffIDs(m)
			if err != nil {
				return nil, fmt.Errorf("image %s: %w", image.Ref, err)
			}
			for n, id := range ids {
				list = append(list, Layer{Image: image, Manifest: m, Descriptor: m.Layers[n], FromTop: len(ids) - n, DiffID: id, Path: l.Blob(m.Layers[n].Digest)})
			}
		}
	}
	return list, nil
}

func isConfig(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageConfig || mediaType == string(types.DockerConfigJSON)
}
