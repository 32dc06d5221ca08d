package mirror

import (
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/opencontainers/go-digest"
	ocispecs "github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle/ocilayout"
)

// A lean layer is in the content store in place of the layer that upstream's manifest names. Upstream's file cannot be made from it. So a
// tag of such an image leads to another manifest, which names the lean layers: the configuration is the same, and its diff_ids guard what is
// unpacked. Upstream's digest still leads to upstream's manifest.

// upstreamAnnotation has the digest of upstream's manifest.
const upstreamAnnotation = "sealift.dev/manifest"

// leanManifest is a manifest that names lean layers.
type leanManifest struct {
	target ocispec.Descriptor
	data   []byte
	layers []ocispec.Descriptor
}

// lean returns the manifest with lean layers of an image whose layers are here only so, or nil.
func (p repository) lean(target ocispec.Descriptor) (*leanManifest, error) {
	top, err := p.layout().Read(target)
	if err != nil {
		return nil, err
	}
	for _, m := range top.All() {
		if m.Index || len(m.Layers) == 0 {
			continue
		}
		layers, err := p.forms(m)
		switch {
		case layers == nil && err == nil, errors.Is(err, fs.ErrNotExist): // as upstream made it, or of another platform
			continue
		case err != nil:
			return nil, err
		}
		return newLeanManifest(m, layers)
	}
	return nil, nil
}

// forms returns the layers of a manifest as the content store has them; nil if all are upstream's.
func (p repository) forms(m ocilayout.Manifest) (layers []ocispec.Descriptor, err error) {
	changed := false
	for _, layer := range m.Layers {
		form, err := p.content.Form(p.ctx, m.Config, layer)
		if err != nil {
			return nil, err
		}
		changed = changed || form.Digest != layer.Digest
		layers = append(layers, form)
	}
	if !changed {
		return nil, nil
	}
	for n := range layers { // upstream's may be Docker's
		layers[n] = ocispec.Descriptor{MediaType: ociType(layers[n].MediaType), Digest: layers[n].Digest, Size: layers[n].Size}
	}
	return layers, nil
}

// ociType is OCI's media type of a layer.
func ociType(mediaType string) string {
	switch mediaType {
	case "application/vnd.docker.image.rootfs.diff.tar.gzip":
		return ocispec.MediaTypeImageLayerGzip
	case "application/vnd.docker.image.rootfs.diff.tar":
		return ocispec.MediaTypeImageLayer
	}
	return mediaType
}

func newLeanManifest(m ocilayout.Manifest, layers []ocispec.Descriptor) (*leanManifest, error) {
	data, err := json.Marshal(ocispec.Manifest{
		Versioned: ocispecs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: m.Config.Digest, Size: m.Config.Size}, Layers: layers,
		Annotations: map[string]string{upstreamAnnotation: m.Digest.String()},
	})
	target := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(data), Size: int64(len(data))}
	return &leanManifest{target, data, layers}, err
}

// findLean returns a manifest with lean layers of the repository, or nil.
func (p repository) findLean(is func(*leanManifest) bool) (*leanManifest, error) {
	var failed error
	for _, target := range p.offered {
		m, err := p.lean(target)
		if m != nil && is(m) {
			return m, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}
