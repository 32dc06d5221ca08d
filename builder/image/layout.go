package image

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/ocilayout"
)

// Layout returns the files of an OCI image layout (image-spec, image-layout.md) with these images below dir; blobs are read
// from the cache when the files are. Its index.json has one descriptor for each reference, which has the digest of the
// reference's target and the name in both annotations that tools read: org.opencontainers.image.ref.name (skopeo) and
// io.containerd.image.name (containerd). Blobs that images share are stored once; manifests and layers of other platforms are
// absent. What is attached to images is listed in bundle.ReferrersName beside index.json.
func Layout(dir string, resolved []Resolved, c *cache.Cache) ([]bundle.File, error) {
	if len(resolved) == 0 {
		return nil, nil
	}
	index, err := layoutIndex(resolved)
	if err != nil {
		return nil, err
	}
	marker, err := json.Marshal(ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", ocispec.ImageLayoutFile, err)
	}
	files := []bundle.File{
		bundle.BytesFile(path.Join(dir, ocispec.ImageIndexFile), cache.FileMode, index),
		bundle.BytesFile(path.Join(dir, ocispec.ImageLayoutFile), cache.FileMode, marker),
	}
	referrers, err := referrersIndex(resolved)
	if err != nil {
		return nil, err
	}
	if referrers != nil {
		files = append(files, bundle.BytesFile(path.Join(dir, bundle.ReferrersName), cache.FileMode, referrers))
	}
	for _, d := range blobsOf(resolved) {
		files = append(files, c.File(path.Join(dir, ocispec.ImageBlobsDir, "sha256", d.hex()), bundle.Blob{SHA256: d.hex(), Size: d.Size}))
	}
	return files, nil
}

// InLayout reports whether Layout makes a file, by its path in the folder of images.
func InLayout(name string) bool {
	return slices.Contains([]string{ocispec.ImageIndexFile, ocispec.ImageLayoutFile, bundle.ReferrersName}, name) || path.Dir(name) == path.Join(ocispec.ImageBlobsDir, "sha256")
}

// layoutType is the media type under which a layout lists the target of a reference. Docker's list of manifests is an OCI index
// in all but name, and skopeo overlooks it in a layout under the old name. The blob itself is not touched, so its digest stays.
// A lone Docker manifest keeps its type: its parts are not what OCI's type promises.
func layoutType(mediaType string) string {
	if types.MediaType(mediaType) == types.DockerManifestList {
		return ocispec.MediaTypeImageIndex
	}
	return mediaType
}

func layoutIndex(resolved []Resolved) ([]byte, error) {
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex}
	byRef := make(map[string]string)
	for _, r := range resolved {
		if before, dup := byRef[r.Ref]; dup {
			if before != r.Root.Digest {
				return nil, fmt.Errorf("image %s moved from %s to %s during the build; build again", r.Ref, before, r.Root.Digest)
			}
			continue
		}
		byRef[r.Ref] = r.Root.Digest
		index.Manifests = append(index.Manifests, ocispec.Descriptor{
			MediaType: layoutType(r.Root.MediaType), Digest: digest.Digest(r.Root.Digest), Size: r.Root.Size,
			Annotations: ocilayout.Names(r.Ref),
		})
	}
	slices.SortFunc(index.Manifests, func(a, b ocispec.Descriptor) int {
		return cmp.Compare(a.Annotations[ocispec.AnnotationRefName], b.Annotations[ocispec.AnnotationRefName])
	})
	return encode(ocispec.ImageIndexFile, index)
}

// referrersIndex lists what is attached to images, or is nil if nothing is.
func referrersIndex(resolved []Resolved) ([]byte, error) {
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex}
	seen := make(map[string]bool)
	for _, r := range resolved {
		ref, err := ParseReference(r.Ref)
		if err != nil {
			return nil, err
		}
		for _, a := range r.Attached {
			key := ref.Repository() + " " + a.Digest + " " + a.Tag
			if seen[key] {
				continue
			}
			seen[key] = true
			name := ref.Repository() + "@" + a.Digest
			if a.Tag != "" {
				name = ref.Repository() + ":" + a.Tag
			}
			index.Manifests = append(index.Manifests, ocispec.Descriptor{
				MediaType: a.MediaType, Digest: digest.Digest(a.Digest), Size: a.Size,
				Annotations: map[string]string{ocispec.AnnotationRefName: name, bundle.SubjectAnnotation: a.Subject},
			})
		}
	}
	if len(index.Manifests) == 0 {
		return nil, nil
	}
	slices.SortFunc(index.Manifests, func(a, b ocispec.Descriptor) int {
		return cmp.Compare(a.Annotations[ocispec.AnnotationRefName], b.Annotations[ocispec.AnnotationRefName])
	})
	return encode(bundle.ReferrersName, index)
}

func encode(name string, index ocispec.Index) ([]byte, error) {
	data, err := json.MarshalIndent(index, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", name, err)
	}
	return append(data, '\n'), nil
}
