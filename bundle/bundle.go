// Package bundle is the archive format of packages and bundles: a gzip-compressed tar that any tar reads. Its first entry is an
// index of all others. Each regular file is a separate gzip member, so a file can be read and verified in place, and a bundle
// is assembled by copying byte ranges out of packages.
//
// The package knows bytes, digests and paths. It never fetches or applies anything, and knows nothing about hosts.
// docs/format.md is the specification.
package bundle

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/sealift/sealift/internal/sha256hex"
)

// File is one regular file to pack.
type File struct {
	Path   string      // slash-separated, relative to the install root
	Mode   fs.FileMode // permission bits only
	Size   int64       // bytes
	SHA256 string      // of the content, lower-case hex
	// Checked means that this process has already verified the content against SHA256. The content is not hashed again then.
	Checked bool
	// Layer is set if the content is a lean layer.
	Layer *Layer
	// Open opens the content. It may be called more than once, and from several goroutines.
	Open func() (io.ReadCloser, error)
}

// Image is a container image that a package carries in its OCI layout.
type Image struct {
	ID  string `json:"id"`
	Ref string `json:"ref"` // the full name to pull, such as registry.k8s.io/pause:3.10
	// Digest is the digest that the reference had when the package was built: of an image index or a manifest.
	Digest string `json:"digest"`
	// Platforms maps each carried platform, such as linux/amd64, to the digest of its manifest.
	Platforms map[string]string `json:"platforms"`
	// NoRemoteLoad means that only the node that runs the install hook loads the image.
	NoRemoteLoad bool  `json:"noRemoteLoad,omitempty"`
	Size         int64 `json:"size"` // bytes of manifests, configs and layers, as transferred
}

const (
	// ReferrersName is the file beside a layout's index.json that lists what upstream attached to its images. It is an OCI index. The
	// annotation org.opencontainers.image.ref.name has the full name: the repository, and cosign's tag or the digest.
	ReferrersName = "referrers.json"
	// SubjectAnnotation has the digest of the manifest or index that something in ReferrersName is attached to.
	SubjectAnnotation = "dev.sealift.subject"
)

// Blob identifies the content of a file.
type Blob struct {
	SHA256 string `json:"sha256" yaml:"sha256"` // lower-case hex
	Size   int64  `json:"size" yaml:"size"`     // bytes
}

// HostPackageID is what an operating system package says about itself.
type HostPackageID struct {
	Name    string `json:"name" yaml:"name"`
	Version string `json:"version" yaml:"version"`
	Arch    string `json:"arch" yaml:"arch"` // in the distribution's spelling: amd64, x86_64, all, noarch
}

// HostPackage is an operating system package. Its file is in the repository of its target.
type HostPackage struct {
	Target string `json:"target"` // such as debian-12
	HostPackageID
	Path string `json:"path"`
	Blob
}

// Asset is a file that was downloaded unchanged.
type Asset struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	Source string `json:"source"` // the upstream URL, or the path in the Manifest
	Blob
}

// Contents lists the external content of a package.
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

// AddOnDir returns the folder of an add-on below the install root.
func AddOnDir(name, version string) string { return path.Join("addons", name, version) }

// Names of files in an archive. The index and its signature are at the root of a bundle, and in the add-on folder of a
// package. The others are at the root of a bundle.
const (
	IndexName     = "index.json"
	SignatureName = IndexName + signatureSuffix
	InstallerName = "installer.yaml" // the Installer that the bundle is for
	ScriptName    = "install.sh"     // starts BinaryName
	BinaryName    = "bin/sealift"
	PreflightName = "bin/sealift-preflight" // runs the checks of add-ons; a bundle may lack it
	ConsoleName   = "bin/sealift-console"   // web pages of control planes; a bundle may lack it
)

// BytesFile returns a file to pack with its content in memory.
func BytesFile(path string, mode fs.FileMode, data []byte) File {
	return File{Path: path, Mode: mode, Size: int64(len(data)), SHA256: sha256hex.Of(data),
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

// DiskFile returns a file to pack from the disk. It reads the file once for its digest.
func DiskFile(path string, mode fs.FileMode, name string) (File, error) {
	f, err := os.Open(name)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	digest, size, err := sha256hex.Read(f)
	if err != nil {
		return File{}, fmt.Errorf("%s: %w", name, err)
	}
	return File{Path: path, Mode: mode, Size: size, SHA256: digest,
		Open: func() (io.ReadCloser, error) { return os.Open(name) }}, nil
}
