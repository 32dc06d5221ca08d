// Package platform answers which image of an index a node loads, and whether two names of platforms are the same. It asks
// containerd's own packages, since a node's containerd decides in the end. Build, bundle and node ask here.
package platform

import (
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Parse reads os/architecture or os/architecture/variant, such as linux/amd64 or linux/arm/v7. It refuses a variant that no
// node requests: containerd distinguishes the variants of 32-bit ARM, and looks for linux/amd64 and linux/arm64 on every CPU of
// these architectures.
func Parse(s string) (ocispec.Platform, error) {
	parts := strings.Split(s, "/")
	wrong := len(parts) < 2 || len(parts) > 3
	for _, part := range parts {
		wrong = wrong || part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789") != ""
	}
	if wrong {
		return ocispec.Platform{}, fmt.Errorf("platform %q is not of the form os/architecture, such as linux/amd64", s)
	}
	p := ocispec.Platform{OS: parts[0], Architecture: parts[1]}
	if len(parts) == 3 {
		p.Variant = parts[2]
	}
	p = platforms.Normalize(p)
	if p.Variant != "" && p.Architecture != "arm" {
		return ocispec.Platform{}, fmt.Errorf("platform %s: containerd loads %s/%s on every such CPU; use that", s, p.OS, p.Architecture)
	}
	return p, nil
}

// Matcher returns the matcher that a node's containerd uses for images. It accepts what Parse accepts.
func Matcher(s string) (platforms.MatchComparer, error) {
	p, err := Parse(s)
	if err != nil {
		return nil, err
	}
	return platforms.Only(p), nil
}

// Host returns the matcher of this machine's containerd.
func Host() platforms.MatchComparer { return platforms.Default() }

// Same reports whether two names mean the same platform, such as linux/arm64 and linux/arm64/v8. Platforms that merely
// run each other's images are not the same: a node may choose another image of an index than the build did.
func Same(a, b string) bool {
	one, err := Parse(a)
	if err != nil {
		return a == b
	}
	two, err := Parse(b)
	return err == nil && Name(one) == Name(two)
}

// Contains reports whether a list has a platform under one of its names.
func Contains(list []string, name string) bool {
	return slices.ContainsFunc(list, func(one string) bool { return Same(one, name) })
}

// Name is the inverse of Parse. Versions of an operating system are left out.
func Name(p ocispec.Platform) string {
	return strings.TrimSuffix(p.OS+"/"+p.Architecture+"/"+p.Variant, "/")
}

// Runs reports whether an image with this configuration can run on a platform. Empty fields say nothing. Variants of amd64 and
// arm64 are not compared: containerd loads an image named by its manifest regardless of its configuration.
func Runs(wanted, config ocispec.Platform) bool {
	if config.OS == "" {
		config.OS = wanted.OS
	}
	if config.Architecture == "" {
		config.Architecture = wanted.Architecture
	}
	if config.Variant == "" || config.Architecture != "arm" {
		config.Variant = ""
		if platforms.Normalize(config).Architecture == wanted.Architecture {
			config.Variant = wanted.Variant
		}
	}
	return platforms.Only(wanted).Match(config)
}
