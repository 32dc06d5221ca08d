package image

import (
	"fmt"
	"strings"

	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"
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

// ParsePlatform reads os/architecture or os/architecture/variant, such as linux/amd64 or linux/arm/v7.
func ParsePlatform(s string) (v1.Platform, error) {
	parts := strings.Split(s, "/")
	if len(parts) < 2 || len(parts) > 3 {
		return v1.Platform{}, fmt.Errorf("platform %q is not of the form os/architecture, such as linux/amd64", s)
	}
	for _, part := range parts {
		if part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
			return v1.Platform{}, fmt.Errorf("platform %q is not of the form os/architecture, such as linux/amd64", s)
		}
	}
	p := v1.Platform{OS: parts[0], Architecture: parts[1]}
	if len(parts) == 3 {
		p.Variant = parts[2]
	}
	return p, nil
}

// platformName is the inverse of ParsePlatform; versions of an operating system are left out.
func platformName(p v1.Platform) string {
	name := p.OS + "/" + p.Architecture
	if p.Variant != "" {
		name += "/" + p.Variant
	}
	return name
}
