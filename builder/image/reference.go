package image

import (
	"fmt"

	"github.com/distribution/reference"
)

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
