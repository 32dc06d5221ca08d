package lean

import (
	"fmt"

	"github.com/google/go-containerregistry/pkg/v1/types"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/ocilayout"
)

// layer is a layer of an image, with the digest that it has when it is unpacked.
type layer struct {
	file   bundle.File
	diffID string
}

// layers lists the layers of the images in a folder, each once, if they are not lean yet.
func layers(files []bundle.File, dir string) (list []layer, err error) {
	layout, err := ocilayout.OfFiles(files, dir)
	if err != nil {
		return nil, err
	}
	plain := make(map[string]bundle.File, len(files))
	for _, f := range files {
		if f.Layer == nil {
			plain[f.Path] = f
		}
	}
	for _, image := range layout.Images {
		root, err := layout.Read(image.Target)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", image.Ref, err)
		}
		for _, m := range root.All() {
			ids, err := layout.DiffIDs(m)
			if err != nil {
				return nil, fmt.Errorf("image %s: %w", image.Ref, err)
			}
			for n, id := range ids {
				name := layout.Blob(m.Layers[n].Digest)
				if f, ok := plain[name]; ok && isTar(m.Layers[n].MediaType) {
					delete(plain, name) // once
					list = append(list, layer{f, id.Encoded()})
				}
			}
		}
	}
	return list, nil
}

// isTar reports whether a layer is a tar, plain or compressed with gzip.
func isTar(mediaType string) bool {
	return ociType(mediaType) == ocispec.MediaTypeImageLayer || ociType(mediaType) == ocispec.MediaTypeImageLayerGzip
}

// ociType returns the media type of OCI for one of Docker's, whose documents and layers are the same.
func ociType(mediaType string) string {
	switch types.MediaType(mediaType) {
	case types.DockerManifestList:
		return ocispec.MediaTypeImageIndex
	case types.DockerManifestSchema2:
		return ocispec.MediaTypeImageManifest
	case types.DockerConfigJSON:
		return ocispec.MediaTypeImageConfig
	case types.DockerUncompressedLayer:
		return ocispec.MediaTypeImageLayer
	case types.DockerLayer:
		return ocispec.MediaTypeImageLayerGzip
	}
	return mediaType
}
