// Package lock reads and writes Manifest.lock, which records what the names in a Manifest resolved to: a tag to a digest, a
// URL to a sha256, operating system packages to exact files. A build that follows a lock resolves no mutable name.
//
// The package reads, writes and compares locks. It does not resolve names, and does not read the Manifest.
package lock

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/manifest"
)

// FileName is the name of the lock, in the folder of the Manifest.
const FileName = manifest.FileName + ".lock"

// Format is the version of the format.
const Format = "sealift.dev/lock/v1"

// Lock is one Manifest.lock. The zero value locks nothing.
type Lock struct {
	Images  []Image  // in order of Ref
	Assets  []Asset  // in order of URL
	Targets []Target // in order of Name and Platform
}

// Image is what a reference resolved to.
type Image struct {
	Ref       string            `yaml:"ref"`       // the full name, with its tag or digest
	Digest    string            `yaml:"digest"`    // sha256:<hex>, of an index or of the only manifest
	MediaType string            `yaml:"mediaType"` // media type of the content with that digest
	Size      int64             `yaml:"size"`      // size of the same content, in bytes
	Platforms map[string]string `yaml:"platforms"` // platform to manifest digest
}

// Asset is what a URL served.
type Asset struct {
	URL    string `yaml:"url"` // the upstream URL, even if a mirror served it
	SHA256 string `yaml:"sha256"`
	Size   int64  `yaml:"size"` // bytes
}

// Target is what the package solver of an operating system returned.
type Target struct {
	Name     string    `yaml:"target"`   // such as debian-12
	Platform string    `yaml:"platform"` // such as linux/amd64
	Names    []string  `yaml:"names"`    // the requested packages, resolved in one transaction; sorted
	Packages []Package `yaml:"packages"` // the resolved packages, sorted by Name and Arch
}

// Package is one package file.
type Package struct {
	Name    string `yaml:"name"`
	Version string `yaml:"version"`
	Arch    string `yaml:"arch"` // in the distribution's spelling
	URL     string `yaml:"url"`  // the upstream URL, even if a mirror served it
	SHA256  string `yaml:"sha256"`
	Size    int64  `yaml:"size"`          // bytes
	Key     string `yaml:"key,omitempty"` // sha256 of the keys that verified the file's signature
}

// Image returns the locked image of a reference.
func (l *Lock) Image(ref string) (Image, bool) {
	return find(l.Images, func(i Image) bool { return i.Ref == ref })
}

// Asset returns the locked asset of a URL.
func (l *Lock) Asset(url string) (Asset, bool) {
	return find(l.Assets, func(a Asset) bool { return a.URL == url })
}

// Target returns the locked packages of an operating system on a platform.
func (l *Lock) Target(name, platform string) (Target, bool) {
	return find(l.Targets, func(t Target) bool { return t.Name == name && t.Platform == platform })
}

func find[T any](list []T, is func(T) bool) (found T, ok bool) {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i], true
	}
	return found, false
}

// header explains the file to people who open it.
const header = "# What the Manifest beside this file stood for when it was locked. Written by sealift lock: keep it with the\n" +
	"# Manifest, do not edit it, and build with --locked to get the same package again.\n"

// document is the file's structure. Empty lists are omitted.
type document struct {
	Format  string   `yaml:"format"`
	Images  []Image  `yaml:"images,omitempty"`
	Assets  []Asset  `yaml:"assets,omitempty"`
	Targets []Target `yaml:"hostPackages,omitempty"`
}

// Encode writes the lock in canonical form: the same lock gives the same bytes.
func (l Lock) Encode(w io.Writer) error {
	l.sort()
	if _, err := io.WriteString(w, header); err != nil {
		return err
	}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	enc.CompactSeqIndent()
	return errors.Join(enc.Encode(document{Format: Format, Images: l.Images, Assets: l.Assets, Targets: l.Targets}), enc.Close())
}

// sort sorts copies of all lists.
func (l *Lock) sort() {
	l.Images = slices.SortedFunc(slices.Values(l.Images), func(a, b Image) int { return cmp.Compare(a.Ref, b.Ref) })
	l.Assets = slices.SortedFunc(slices.Values(l.Assets), func(a, b Asset) int { return cmp.Compare(a.URL, b.URL) })
	l.Targets = slices.SortedFunc(slices.Values(l.Targets), func(a, b Target) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Platform, b.Platform))
	})
	for i := range l.Targets {
		t := &l.Targets[i]
		t.Names = slices.Sorted(slices.Values(t.Names))
		t.Packages = slices.SortedFunc(slices.Values(t.Packages), func(a, b Package) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Arch, b.Arch), cmp.Compare(a.Version, b.Version))
		})
	}
}

// Save writes the lock to path if it differs, and returns whether it did. It replaces the file atomically.
func (l Lock) Save(path string) (changed bool, err error) {
	var data bytes.Buffer
	if err := l.Encode(&data); err != nil {
		return false, fmt.Errorf("write %s: %w", path, err)
	}
	if before, err := os.ReadFile(path); err == nil && bytes.Equal(before, data.Bytes()) {
		return false, nil
	}
	if err := atomicfile.Write(path, data.Bytes()); err != nil {
		return false, fmt.Errorf("write %s: %w", path, err)
	}
	return true, nil
}
