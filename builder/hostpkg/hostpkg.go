// Package hostpkg brings packages of operating systems, with everything they depend on beyond a minimal host, from the
// distribution's archive into a repository that the distribution's own tool installs from.
//
// What is needed is decided by the distribution's own solver, apt-get, in a directory of its own: it neither reads nor
// changes the machine's package database, needs no root and no container, and solves for any release and architecture
// from any Debian-like host. Signatures of the archive are checked by it. What it answers is plain data, and from then
// on plain Go downloads and verifies. The package installs nothing.
package hostpkg

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/mirror"
	"github.com/sealift/sealift/bundle"
)

// Target is an operating system that packages are built for.
type Target struct {
	Name string // <family>-<version>, such as debian-12
	// Directives are the Manifest directives whose packages belong on this target, such as apt.
	Directives []string
	// Base names what a minimal host has beyond the packages that the archive marks required or essential.
	Base    []string
	Sources []Archive
}

// Archive is one archive of the distribution, in the terms of sources.list(5).
type Archive struct {
	URL        string
	Suites     []string
	Components []string
	SignedBy   string // path of the keyring on the machine that builds
}

// Reaches says whether a directive's packages belong on the target.
func (t Target) Reaches(directive string) bool {
	for _, d := range t.Directives {
		if d == directive {
			return true
		}
	}
	return false
}

// Resolved is one package file of a solution.
type Resolved struct {
	Target  string `json:"target"`
	Name    string `json:"name"`
	Version string `json:"version"`
	Arch    string `json:"arch"` // as the archive spells it: amd64, arm64, all
	URL     string `json:"url"`  // upstream's, whatever mirror it was found through
	SHA256  string `json:"sha256"`
	Size    int64  `json:"size"` // bytes
}

// fileName is the name of the package file: that of the archive, which leaves out the epoch, so that no character needs
// an escape in a file: URL.
func (r Resolved) fileName() string {
	version := r.Version
	if _, rest, ok := strings.Cut(version, ":"); ok {
		version = rest
	}
	return fmt.Sprintf("%s_%s_%s.deb", r.Name, version, r.Arch)
}

// Compare orders packages by target and then by file name.
func Compare(a, b Resolved) int {
	return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.fileName(), b.fileName()))
}

// Describe is the package as the index of a Sealift package lists it; dir is the folder of the target's repository.
func (r Resolved) Describe(dir string) bundle.HostPackage {
	return bundle.HostPackage{
		Target: r.Target, Name: r.Name, Version: r.Version, Arch: r.Arch,
		Path: path.Join(dir, r.fileName()), SHA256: r.SHA256, Size: r.Size,
	}
}

// Architecture is what Debian calls a platform such as linux/amd64.
func Architecture(platform string) (string, error) {
	switch platform {
	case "linux/amd64", "linux/arm64", "linux/riscv64", "linux/s390x", "linux/ppc64le":
		arch := strings.TrimPrefix(platform, "linux/")
		if arch == "ppc64le" {
			arch = "ppc64el"
		}
		return arch, nil
	case "linux/386":
		return "i386", nil
	case "linux/arm/v7", "linux/arm":
		return "armhf", nil
	}
	return "", fmt.Errorf("there are no Debian packages for platform %s", platform)
}

// Options says how archives are asked.
type Options struct {
	Cache   *cache.Cache
	Fetcher fetch.Fetcher // brings blobs into Cache
	Mirrors mirror.Set
	Client  fetch.Client
	// AptGet and AptCache are the tools to run; empty means to look for apt-get and apt-cache in PATH.
	AptGet, AptCache string
}

// Source resolves and fetches host packages. It may be used from several goroutines.
type Source struct {
	options Options
	solvers solvers
}

// NewSource returns a source of host packages.
func NewSource(o Options) *Source { return &Source{options: o} }

// Fetch brings a package file into the cache.
func (s *Source) Fetch(ctx context.Context, r Resolved) (fetch.Stored, error) {
	address := s.options.Mirrors.URL(r.URL)
	stored, err := s.options.Fetcher.Fetch(ctx, fetch.Blob{
		Name: r.Target + " " + r.fileName(), SHA256: r.SHA256, Size: r.Size,
		Open: func(ctx context.Context) (io.ReadCloser, int64, error) {
			resp, err := s.options.Client.Get(ctx, address, nil)
			if err != nil {
				return nil, 0, err
			}
			return resp.Body, resp.ContentLength, nil
		},
	})
	if err != nil {
		return fetch.Stored{}, fmt.Errorf("package %s %s for %s: %w", r.Name, r.Version, r.Target, err)
	}
	return stored, nil
}

// Check says what is wrong with a target; where it came from is the caller's to add.
func (t Target) Check() error {
	if t.Name == "" || strings.Trim(t.Name, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" || strings.HasPrefix(t.Name, ".") {
		return fmt.Errorf("target %q: a name has lower-case letters, digits, dots and dashes", t.Name)
	}
	if len(t.Sources) == 0 {
		return fmt.Errorf("target %s has no sources", t.Name)
	}
	for _, name := range t.Base {
		if !validName(name) {
			return fmt.Errorf("target %s: base: %q is not a package name", t.Name, name)
		}
	}
	for _, a := range t.Sources {
		if err := a.check(); err != nil {
			return fmt.Errorf("target %s: source %q: %w", t.Name, a.URL, err)
		}
	}
	return nil
}

// base is the URL with a slash at its end, so that a rule for a mirror matches however either is written.
func (a Archive) base() string { return strings.TrimSuffix(a.URL, "/") + "/" }

func (a Archive) check() error {
	u, err := url.Parse(a.URL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || strings.ContainsAny(a.URL, " \t\r\n") {
		return fmt.Errorf("not an http or https URL")
	}
	if len(a.Suites) == 0 || len(a.Components) == 0 {
		return fmt.Errorf("suites and components are needed")
	}
	for _, word := range append(append([]string{}, a.Suites...), a.Components...) {
		if word == "" || strings.ContainsAny(word, " \t\r\n") {
			return fmt.Errorf("%q is not a suite or component", word)
		}
	}
	if !path.IsAbs(a.SignedBy) || strings.ContainsAny(a.SignedBy, " \t\r\n") {
		return fmt.Errorf("signedBy must be the absolute path of a keyring, without blanks")
	}
	return nil
}

// validName holds a package name against Debian Policy §5.6.1. A trailing dash would tell apt-get to remove.
func validName(name string) bool {
	return len(name) >= 2 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789+.-") == "" &&
		!strings.ContainsRune("+.-", rune(name[0])) && !strings.HasSuffix(name, "-")
}
