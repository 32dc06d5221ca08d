package ocilayout

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle"
)

// Platforms maps the paths of files of a package in an archive to the platforms whose nodes alone use them: the manifests, the
// configurations and the layers of its images, and its assets. Other files, such as the indexes of images, are for all nodes, and absent.
// It is empty for an archive for one platform. Images whose manifests the archive leaves out add nothing, unless it has its base.
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
	err := eachBlob(a, p, func(_, platform, name string) {
		if !slices.Contains(of[name], platform) {
			of[name] = append(of[name], platform)
		}
	})
	if errors.Is(err, bundle.ErrNoBase) {
		err = nil
	}
	return of, err
}

// BlobsOfOnly returns the paths of the blobs of a package that some of its images have and no other one does: their manifests,
// configurations and layers for all platforms. is selects these images by their reference.
func BlobsOfOnly(a *bundle.Archive, p bundle.PackageInfo, is func(ref string) bool) (map[string]bool, error) {
	only, others := map[string]bool{}, map[string]bool{}
	err := eachBlob(a, p, func(ref, _, name string) {
		if is(ref) {
			only[name] = true
		} else {
			others[name] = true
		}
	})
	maps.DeleteFunc(only, func(name string, _ bool) bool { return others[name] })
	return only, err
}

// eachBlob calls f with the path of each blob of each image of a package. Blobs that images share are reported for each. The error
// wraps bundle.ErrNoBase if no more than manifests that the archive leaves out could not be read.
func eachBlob(a *bundle.Archive, p bundle.PackageInfo, f func(ref, platform, name string)) error {
	var absent error
	dir := path.Join(p.Dir(), "images")
	for _, image := range p.Images {
		for platform, manifest := range image.Platforms {
			blobs, err := blobsOf(a, dir, digest.Digest(manifest))
			if err != nil {
				err = fmt.Errorf("image %s for %s: %w", image.Ref, platform, err)
			}
			if errors.Is(err, bundle.ErrNoBase) {
				absent = err
				continue
			}
			if err != nil {
				return err
			}
			for _, d := range blobs {
				name := path.Join(dir, Path(d))
				if e, ok := a.LeanLayer(name); ok {
					name = e.Path
				}
				f(image.Ref, platform, name)
			}
		}
	}
	return absent
}

// blobsOf lists the manifest of one image, its configuration and its layers. It does not link the reader of whole indexes, which nodes do
// without.
func blobsOf(a *bundle.Archive, dir string, manifest digest.Digest) ([]digest.Digest, error) {
	if err := manifest.Validate(); err != nil {
		return nil, err
	}
	data, err := a.ReadFile(path.Join(dir, Path(manifest)), maxDocument)
	if err != nil {
		return nil, err
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", manifest, err)
	}
	list := []digest.Digest{manifest}
	for _, d := range append(m.Layers, m.Config) {
		if err := d.Digest.Validate(); err != nil {
			return nil, fmt.Errorf("%s: %w", manifest, err)
		}
		list = append(list, d.Digest)
	}
	return list, nil
}
