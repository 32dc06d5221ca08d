// Package component names the software that a bundle contains: packages of operating systems and Go modules. It is the one place that
// knows their package URLs (https://github.com/package-url/purl-spec).
//
// The package only names. It reads no files and judges nothing.
package component

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/distribution/reference"
)

// Kind is the type of a component in package URLs.
type Kind string

// The kinds of component.
const (
	Deb Kind = "deb"
	RPM Kind = "rpm"
	APK Kind = "apk"
	Go  Kind = "golang"
)

// Stdlib is the name of Go's standard library among modules. Its version is the toolchain's, such as go1.26.1.
const Stdlib = "stdlib"

// FIPS140 is the name of Go's module for FIPS 140-3 among modules, which is the path of its packages. Its version is that of the
// module, such as v1.0.0-c2097c7c.
const FIPS140 = "crypto/internal/fips140"

// Component is one package of an operating system, or one Go module.
type Component struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"`
	// Version is empty if it is not known, as for a module that was built from its working tree.
	Version string `json:"version,omitempty"`
	// Arch is in the distribution's spelling: amd64, x86_64, all. Modules have none.
	Arch string `json:"arch,omitempty"`
	// System is the distribution, <ID>-<VERSION_ID> of its os-release, such as debian-12. Modules have none.
	System string `json:"system,omitempty"`
	// Source and SourceVersion are the source package that a package was built from, where its database names it. Distributions
	// publish vulnerabilities by it.
	Source        string `json:"source,omitempty"`
	SourceVersion string `json:"sourceVersion,omitempty"`
	// Licenses are the statements of the package itself, in its own words.
	Licenses []string `json:"licenses,omitempty"`
}

// Module returns a Go module.
func Module(path, version string) Component { return Component{Kind: Go, Name: path, Version: version} }

// Vendor returns the distribution without its version.
func (c Component) Vendor() string {
	vendor, _, _ := strings.Cut(c.System, "-")
	return vendor
}

// URL returns the package URL. It is the same for the same component, wherever it was found.
func (c Component) URL() string {
	version := ""
	if c.Version != "" {
		version = "@" + url.QueryEscape(c.Version)
	}
	if c.Kind == Go {
		return "pkg:golang/" + c.Name + version
	}
	query := url.Values{}
	if c.Arch != "" {
		query.Set("arch", c.Arch)
	}
	if c.System != "" {
		query.Set("distro", c.System)
	}
	text := "pkg:" + string(c.Kind) + "/" + cmp.Or(url.PathEscape(c.Vendor()), "unknown") + "/" + url.QueryEscape(c.Name) + version
	if len(query) > 0 {
		text += "?" + query.Encode()
	}
	return text
}

// ImageURL returns the package URL of an image: its full name, and the digest of an index or a manifest.
func ImageURL(ref, digest string) string {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return "pkg:oci/" + url.PathEscape(ref) + "@" + url.QueryEscape(digest)
	}
	name := named.Name()
	query := url.Values{"repository_url": {name}}
	if tagged, ok := named.(reference.Tagged); ok {
		query.Set("tag", tagged.Tag())
	}
	return "pkg:oci/" + name[strings.LastIndexByte(name, '/')+1:] + "@" + url.QueryEscape(digest) + "?" + query.Encode()
}

// Compare orders components by kind, name, version, system and architecture.
func Compare(a, b Component) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version),
		cmp.Compare(a.System, b.System), cmp.Compare(a.Arch, b.Arch), cmp.Compare(a.Source, b.Source), cmp.Compare(a.SourceVersion, b.SourceVersion),
		slices.Compare(a.Licenses, b.Licenses))
}
