// Package bundle is the archive format that packages and bundles share: one gzip-compressed tar that any tar reads, whose
// first entry is an index of all others and whose every regular file is a gzip member of its own. So a file can be read
// and verified in place, and a bundle is assembled by copying byte ranges out of packages.
//
// The package knows bytes, digests and paths. It never fetches, never applies, and knows nothing of hosts.
// docs/format.md is the specification.
package bundle

import (
	"io"
	"io/fs"
	"path"
)

// File is one regular file to pack.
type File struct {
	Path   string      // slash-separated, relative to the install root
	Mode   fs.FileMode // permission bits only
	Size   int64       // bytes
	SHA256 string      // of the content, lower-case hex
	// Checked says that this process has held the content against SHA256 and that it is still the same. It is not hashed
	// once more then.
	Checked bool
	// Open gives the content from its start. It may be called more than once, and from several goroutines.
	Open func() (io.ReadCloser, error)
}

// Image is a container image that a package carries in its OCI layout.
type Image struct {
	ID  string `json:"id"`
	Ref string `json:"ref"` // the full name it is pulled by, such as registry.k8s.io/pause:3.10
	// Digest is what the reference pointed to when the package was built: an image index or a manifest.
	Digest string `json:"digest"`
	// Platforms gives the digest of the manifest for each platform that is present, such as linux/amd64.
	Platforms map[string]string `json:"platforms"`
	// NoRemoteLoad says that only the node that runs the install hook needs the image.
	NoRemoteLoad bool  `json:"noRemoteLoad,omitempty"`
	Size         int64 `json:"size"` // bytes of manifests, configs and layers, as transferred
}

// HostPackage is an operating system package, its file lying in the repository of its target.
type HostPackage struct {
	Target  string `json:"target"` // such as debian-12
	Name    string `json:"name"`
	Version string `json:"version"`
	Arch    string `json:"arch"`
	Path    string `json:"path"`
	SHA256  string `json:"sha256"`
	Size    int64  `json:"size"`
}

// Asset is a file fetched as it is.
type Asset struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	Source string `json:"source"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// Contents names what a package carries from outside.
type Contents struct {
	Images       []Image       `json:"images,omitempty"`
	HostPackages []HostPackage `json:"hostPackages,omitempty"`
	Assets       []Asset       `json:"assets,omitempty"`
}

// Package is one built add-on, ready to be written.
type Package struct {
	Name, Version string
	Platforms     []string // such as linux/amd64
	Targets       []string // such as debian-12
	Contents      Contents
	Files         []File
}

// AddOnDir is where an add-on lies below the install root.
func AddOnDir(name, version string) string { return path.Join("addons", name, version) }

// The files that an archive has by name. IndexName lies at the root of a bundle, and in the add-on directory of a
// package, and so does its signature; the others lie at the root of a bundle.
const (
	IndexName     = "index.json"
	SignatureName = IndexName + signatureSuffix
	InstallerName = "installer.yaml" // the Installer that the bundle is for
	ScriptName    = "install.sh"     // starts BinaryName
	BinaryName    = "bin/sealift"
	PreflightName = "bin/sealift-preflight" // makes the checks of add-ons; a bundle may lack it
)
