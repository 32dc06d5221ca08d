// Package image brings container images from registries, through mirrors, into the cache, and lays them out as an OCI image
// layout. Nothing is converted: manifests keep the registry's bytes, so that every digest, including that of a multi-platform
// index, equals the registry's.
//
// Resolve resolves a reference to plain data; Blobs lists the content to fetch; Layout is the result. The package never runs or
// unpacks an image.
package image

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle"
)

// Resolved is an image reference with everything it pointed to.
type Resolved struct {
	ID           string `json:"id"`
	Ref          string `json:"ref"` // the full name, see Reference
	NoRemoteLoad bool   `json:"noRemoteLoad,omitempty"`
	// Root is the target of the reference: an index, or the only manifest.
	Root Descriptor `json:"root"`
	// Indexes are those between Root and Manifests: an index may list other indexes.
	Indexes []Descriptor `json:"indexes,omitempty"`
	// Manifests has one element for each requested platform, in that order.
	Manifests []Manifest `json:"manifests"`
	// Attestations are listed in Root or Indexes, and are about Manifests: buildkit keeps SBOMs and provenance there.
	Attestations []Manifest `json:"attestations,omitempty"`
	// Attached are signatures, SBOMs and attestations; each is after what it is attached to.
	Attached []Attached `json:"attached,omitempty"`
}

// Manifest is the image for one platform.
type Manifest struct {
	Platform string `json:"platform"`
	Descriptor
	Config Descriptor   `json:"config"`
	Layers []Descriptor `json:"layers"`
}

// Descriptor names a blob.
type Descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"` // sha256:<hex>
	Size      int64  `json:"size"`   // bytes
}

func descriptor(d ocispec.Descriptor) Descriptor {
	return Descriptor{MediaType: d.MediaType, Digest: d.Digest.String(), Size: d.Size}
}

func (d Descriptor) oci() ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: d.MediaType, Digest: digest.Digest(d.Digest), Size: d.Size}
}

// hex is the digest without its algorithm.
func (d Descriptor) hex() string { return d.Digest[len("sha256:"):] }

// all returns every blob of the image once, its index and manifests first.
func (r Resolved) all() []Descriptor {
	list := append([]Descriptor{r.Root}, r.Indexes...)
	for _, m := range r.Manifests {
		list = append(list, m.Descriptor)
	}
	for _, m := range r.extra() {
		list = append(list, m.Descriptor)
	}
	return unique(append(list, r.Blobs()...))
}

// extra returns the manifests of all that is attached.
func (r Resolved) extra() []Manifest {
	list := slices.Clone(r.Attestations)
	for _, a := range r.Attached {
		list = append(list, a.Manifest)
	}
	return list
}

func unique(list []Descriptor) []Descriptor {
	seen := make(map[string]bool, len(list))
	return slices.DeleteFunc(list, func(d Descriptor) bool {
		dup := seen[d.Digest]
		seen[d.Digest] = true
		return dup
	})
}

// Describe returns the entry of the image in the index of a package.
func (r Resolved) Describe() bundle.Image {
	image := bundle.Image{ID: r.ID, Ref: r.Ref, Digest: r.Root.Digest, NoRemoteLoad: r.NoRemoteLoad, Platforms: make(map[string]string)}
	for _, m := range r.Manifests {
		image.Platforms[m.Platform] = m.Digest
	}
	for _, d := range r.all() {
		image.Size += d.Size
	}
	return image
}

// blobsOf returns every blob of several images once, in order of their digests.
func blobsOf(images []Resolved) []Descriptor {
	var list []Descriptor
	for _, r := range images {
		list = append(list, r.all()...)
	}
	list = unique(list)
	slices.SortFunc(list, func(a, b Descriptor) int { return cmp.Compare(a.Digest, b.Digest) })
	return list
}

// Reference is the full name of an image, as a container runtime spells it: with its registry, and with its tag or
// digest. The short forms of Docker Hub are spelled out: busybox is docker.io/library/busybox:latest.
type Reference struct {
	named reference.Named
}

// ParseReference reads a reference as a Manifest writes it.
func ParseReference(s string) (Reference, error) {
	named, err := reference.ParseNormalizedNamed(s)
	if err != nil {
		return Reference{}, fmt.Errorf("image reference %q: %w", s, err)
	}
	return Reference{named: reference.TagNameOnly(named)}, nil
}

// String is the whole reference.
func (r Reference) String() string { return r.named.String() }

// Repository is the part before tag and digest, such as registry.k8s.io/pause.
func (r Reference) Repository() string { return r.named.Name() }

// Digest is the digest that the reference is pinned to, such as sha256:…, or empty.
func (r Reference) Digest() string {
	if digested, ok := r.named.(reference.Digested); ok {
		return digested.Digest().String()
	}
	return ""
}

// Tag is the tag, or empty when the reference has only a digest.
func (r Reference) Tag() string {
	if tagged, ok := r.named.(reference.Tagged); ok {
		return tagged.Tag()
	}
	return ""
}
