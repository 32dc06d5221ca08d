package lean

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle"
)

// maxDocument bounds the JSON documents of a layout, in bytes. Registries refuse more.
const maxDocument = 4 << 20

// layout is an OCI image layout among the files of a package.
type layout struct {
	dir   string
	files map[string]bundle.File // by path
}

// document is an index or a manifest.
type document struct {
	Manifests []ocispec.Descriptor `json:"manifests"`
	Config    ocispec.Descriptor   `json:"config"`
	Layers    []ocispec.Descriptor `json:"layers"`
}

// layer is a layer of an image, with the digest that it has when it is unpacked.
type layer struct {
	file   bundle.File
	diffID string
}

// blob returns the file of a blob. Blobs of other platforms are absent.
func (l layout) blob(d digest.Digest) (bundle.File, bool) {
	algorithm, encoded, ok := strings.Cut(d.String(), ":")
	f, there := l.files[path.Join(l.dir, ocispec.ImageBlobsDir, algorithm, encoded)]
	return f, ok && there
}

// layers lists every layer once. A folder without a layout has none.
func (l layout) layers() ([]layer, error) {
	index, ok := l.files[path.Join(l.dir, ocispec.ImageIndexFile)]
	if !ok {
		return nil, nil
	}
	var list []layer
	seen := map[string]bool{index.Path: true}
	for queue := []bundle.File{index}; len(queue) > 0; queue = queue[1:] {
		var doc document
		if err := readJSON(queue[0], &doc); err != nil {
			return nil, err
		}
		for _, d := range doc.Manifests {
			if f, ok := l.blob(d.Digest); ok && !seen[f.Path] {
				seen[f.Path] = true
				queue = append(queue, f)
			}
		}
		own, err := l.ofImage(doc)
		if err != nil {
			return nil, err
		}
		for _, one := range own {
			if !seen[one.file.Path] {
				seen[one.file.Path] = true
				list = append(list, one)
			}
		}
	}
	return list, nil
}

// ofImage returns the layers of a manifest. Something else than an image, such as an attestation, has none.
func (l layout) ofImage(doc document) ([]layer, error) {
	config, ok := l.blob(doc.Config.Digest)
	if !ok || len(doc.Layers) == 0 || !isConfig(doc.Config.MediaType) {
		return nil, nil
	}
	var image ocispec.Image
	if err := readJSON(config, &image); err != nil {
		return nil, err
	}
	if len(image.RootFS.DiffIDs) != len(doc.Layers) {
		return nil, nil
	}
	var list []layer
	for i, d := range doc.Layers {
		if f, ok := l.blob(d.Digest); ok && f.Layer == nil && isLayer(d.MediaType) {
			list = append(list, layer{f, image.RootFS.DiffIDs[i].Encoded()})
		}
	}
	return list, nil
}

// Media types of Docker's images, which OCI's specification does not have.
const (
	dockerConfig    = string(types.DockerConfigJSON)
	dockerLayer     = string(types.DockerUncompressedLayer)
	dockerGzipLayer = string(types.DockerLayer)
	dockerManifest  = string(types.DockerManifestSchema2)
	dockerIndex     = string(types.DockerManifestList)
)

func isConfig(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageConfig || mediaType == dockerConfig
}

// isLayer reports whether a layer is a tar, plain or compressed with gzip.
func isLayer(mediaType string) bool {
	switch mediaType {
	case ocispec.MediaTypeImageLayer, ocispec.MediaTypeImageLayerGzip, dockerLayer, dockerGzipLayer:
		return true
	}
	return false
}

func readJSON(f bundle.File, into any) (err error) {
	if f.Size > maxDocument {
		return fmt.Errorf("%s: has %d bytes, more than the limit of %d", f.Path, f.Size, maxDocument)
	}
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	data, err := io.ReadAll(io.LimitReader(r, maxDocument))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	return nil
}
