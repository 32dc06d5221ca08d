package registry

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/ocilayout"
)

// The artifact types of what no other program has a type for.
const (
	packagesType = "application/vnd.sealift.os-packages.v1"
	filesType    = "application/vnd.sealift.files.v1"
)

// fileTypes are the media types of files by their suffixes.
var fileTypes = map[string]string{".deb": "application/vnd.debian.binary-package", ".rpm": "application/x-rpm", ".gz": "application/gzip", ".tgz": "application/gzip", ".json": "application/json"}

func fileType(name string) string {
	if t, ok := fileTypes[path.Ext(name)]; ok {
		return t
	}
	return "application/octet-stream"
}

// tagOf is the tag of a version, as Helm writes it.
func tagOf(version string) string { return strings.ReplaceAll(version, "+", "_") }

func digestOf(e bundle.Entry) digest.Digest {
	return digest.NewDigestFromEncoded(digest.SHA256, e.SHA256)
}

// readFiles makes artifacts of the packages' repositories of OS packages, one for each operating system, and of their assets.
func readFiles(a *bundle.Archive, packages []bundle.PackageInfo) (all []image, err error) {
	for _, p := range packages {
		add := func(kind, artifactType, repository, dir string) error {
			entries := a.Below(path.Join(p.Dir(), dir))
			if len(entries) == 0 {
				return nil
			}
			i, err := newArtifact(image{kind: kind, repository: repository, tag: tagOf(p.Version), ref: repository + ":" + p.Version}, artifactType, path.Join(p.Dir(), dir), entries)
			if err != nil {
				return fmt.Errorf("package %s %s: %s: %w", p.Name, p.Version, dir, err)
			}
			all = append(all, i)
			return nil
		}
		for _, target := range slices.Compact(slices.Sorted(slices.Values(p.Targets))) {
			if err := add(KindPackages, packagesType, "packages/"+p.Name+"/"+target, "packages/"+target); err != nil {
				return nil, err
			}
		}
		if err := add(KindFiles, filesType, "files/"+p.Name, "assets"); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// newArtifact makes an artifact whose layers are files. Their titles are their paths below dir, under which ORAS writes them.
func newArtifact(i image, artifactType, dir string, entries []bundle.Entry) (image, error) {
	if _, err := reference.ParseNamed("registry.example/" + i.repository + ":" + i.tag); err != nil {
		return i, fmt.Errorf("%s cannot be a name in a registry: %w", i.ref, err)
	}
	i.files = make(map[digest.Digest]string, len(entries))
	m := ocispec.Manifest{ArtifactType: artifactType, Config: ocispec.Descriptor{MediaType: ocispec.MediaTypeEmptyJSON}}
	for _, e := range entries {
		title := strings.TrimPrefix(e.Path, dir+"/")
		m.Layers = append(m.Layers, ocispec.Descriptor{MediaType: fileType(title), Digest: digestOf(e), Size: e.Size, Annotations: map[string]string{ocispec.AnnotationTitle: title}})
		i.files[digestOf(e)] = e.Path
	}
	err := i.compose(ocispec.DescriptorEmptyJSON.Data, m)
	return i, err
}

// compose completes a manifest with its configuration, and makes it that of the image.
func (i *image) compose(config []byte, m ocispec.Manifest) error {
	m.Versioned, m.MediaType = specs.Versioned{SchemaVersion: 2}, ocispec.MediaTypeImageManifest
	m.Config.Digest, m.Config.Size = digest.FromBytes(config), int64(len(config))
	written, err := json.Marshal(m)
	if err != nil {
		return err
	}
	root := digest.FromBytes(written)
	i.root = ocilayout.Manifest{Descriptor: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: root, Size: int64(len(written))}}
	i.made = map[digest.Digest][]byte{m.Config.Digest: config, root: written}
	seen := make(map[digest.Digest]bool)
	for _, d := range append([]ocispec.Descriptor{m.Config}, m.Layers...) {
		if !seen[d.Digest] {
			seen[d.Digest] = true
			i.blobs = append(i.blobs, ocispec.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size})
		}
	}
	return nil
}
