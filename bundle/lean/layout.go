package lean

import (
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

// layers lists the layers of the images in a folder, each once, if they are tars that are plain or compressed with gzip, and not lean yet.
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
	all, err := layout.Layers()
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		if f, ok := plain[l.Path]; ok && l.IsTar() && l.Descriptor.MediaType != ocispec.MediaTypeImageLayerZstd {
			delete(plain, l.Path) // once
			list = append(list, layer{f, l.DiffID.Encoded()})
		}
	}
	return list, nil
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
