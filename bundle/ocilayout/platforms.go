package ocilayout

import (
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle"
)

// Platforms maps the paths of files of a package in an archive to the platforms whose nodes alone use them: the manifests, the
// configurations and the layers of its images, and its assets. Other files, such as the indexes of images, are for all nodes, and absent.
// It is empty for an archive for one platform.
func Platforms(a *bundle.Archive, p bundle.PackageInfo) (map[string][]string, error) {
	of := make(map[string][]string)
	if len(a.Index.Platforms) < 2 {
		return of, nil
	}
	for _, asset := range p.Assets {
		if platform := p.Platform(asset, a.Index.Platforms); platform != "" {
			of[asset.Path] = []string{platform}
		}
	}
	l, err := OfPackage(a, p)
	if err != nil {
		return nil, err
	}
	add := func(d digest.Digest, platform string) {
		name := l.Blob(d)
		if e, ok := a.LeanLayer(name); ok {
			name = e.Path
		}
		if !slices.Contains(of[name], platform) {
			of[name] = append(of[name], platform)
		}
	}
	for _, image := range p.Images {
		for platform, manifest := range image.Platforms {
			read, err := l.Read(ocispec.Descriptor{Digest: digest.Digest(manifest)})
			if err != nil {
				return nil, fmt.Errorf("image %s for %s: %w", image.Ref, platform, err)
			}
			add(read.Digest, platform)
			for _, blob := range read.Blobs() {
				add(blob.Digest, platform)
			}
		}
	}
	return of, nil
}
