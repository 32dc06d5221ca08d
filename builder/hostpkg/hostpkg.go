// Package hostpkg brings packages of operating systems, with everything they depend on beyond a minimal host, from the
// distribution's archive into a repository that the distribution's own tool installs from.
//
// The distribution's own solver, apt-get or dnf, decides what is needed, in a private directory: it neither reads nor changes
// the machine's package database, needs no root and no container, and solves for any release and architecture from any host
// that has the tool. Signatures are checked, for apt those of the archive, for dnf those of each package. What the solver
// answers is plain data, and from then on plain Go downloads and verifies. The package installs nothing.
package hostpkg

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/lock"
	"github.com/sealift/sealift/builder/mirror"
	"github.com/sealift/sealift/bundle"
)

// Resolved is one package file of a solution.
type Resolved struct {
	Target string `json:"target"`
	lock.Package
	Fetched int64 `json:"-"` // bytes transferred to resolve it: an rpm must be downloaded to be checked
}

// isRPM distinguishes the two formats.
func (r Resolved) isRPM() bool { return strings.HasSuffix(r.URL, ".rpm") }

// fileName is the archive's name of the package file, which leaves out the epoch, so that no character needs an escape in a
// file: URL.
func (r Resolved) fileName() string {
	version := r.Version
	if _, rest, ok := strings.Cut(version, ":"); ok {
		version = rest
	}
	if r.isRPM() {
		return fmt.Sprintf("%s-%s.%s.rpm", r.Name, version, r.Arch)
	}
	return fmt.Sprintf("%s_%s_%s.deb", r.Name, version, r.Arch)
}

// Compare orders packages by target and then by file name. Those of equal order are the same package.
func Compare(a, b Resolved) int {
	return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.fileName(), b.fileName()))
}

// Describe is the package as the index of a Sealift package lists it; dir is the folder of the target's repository.
func (r Resolved) Describe(dir string) bundle.HostPackage {
	return bundle.HostPackage{Target: r.Target, HostPackageID: r.HostPackageID, Path: path.Join(dir, r.fileName()), Blob: r.Blob}
}

// Options configures how archives are queried.
type Options struct {
	Cache   *cache.Cache
	Fetcher fetch.Fetcher // brings blobs into Cache
	Mirrors mirror.Set
	Client  fetch.Client
	// Targets are those whose keys may be requested when locked packages are fetched.
	Targets []Target
	// Vouched are digests of .deb files that the caller has found in signed indexes of the archives.
	Vouched []string
	// The tools to run; empty means to look for them in PATH.
	AptGet, DNF string
}

// Source resolves and fetches host packages. It may be used from several goroutines.
type Source struct {
	options Options
	solvers solvers
}

// NewSource returns a source of host packages.
func NewSource(o Options) *Source { return &Source{options: o} }

// Fetch brings a package file into the cache, and the keys that vouch for it. The signature of an rpm is checked.
func (s *Source) Fetch(ctx context.Context, r Resolved) (fetch.Stored, error) {
	stored, err := s.options.fetch(ctx, r)
	if err == nil && r.isRPM() {
		err = s.checkSigned(ctx, r)
	}
	if err != nil {
		return fetch.Stored{}, fmt.Errorf("package %s %s for %s: %w", r.Name, r.Version, r.Target, err)
	}
	return stored, nil
}

// checkSigned checks an rpm with the keys of its target, wherever it was resolved.
func (s *Source) checkSigned(ctx context.Context, r Resolved) error {
	if err := s.options.fetchKey(ctx, r); err != nil {
		return err
	}
	signed, err := s.options.signatures()
	if err != nil {
		return err
	}
	return signed.check(ctx, r)
}

func (o Options) fetch(ctx context.Context, r Resolved) (fetch.Stored, error) {
	address := o.Mirrors.URL(r.URL)
	return o.Fetcher.Fetch(ctx, fetch.Blob{
		Name: r.Target + " " + r.fileName(), SHA256: r.SHA256, Size: r.Size,
		From: func(context.Context) (fetch.Location, error) {
			return fetch.Location{Client: o.Client, URL: address}, nil
		},
	})
}

// checkIdentity refuses a package file whose own metadata differ from r, which a lock or the index of an archive says about it.
// Other names for the same file would obscure what a host gets, including in the bill of materials.
func (r Resolved) checkIdentity(is bundle.HostPackageID) error {
	if r.HostPackageID == is {
		return nil
	}
	return fmt.Errorf("the file %s says that it is %s %s for %s, not %s %s for %s; lock the add-on again with sealift lock --update",
		r.URL, is.Name, is.Version, is.Arch, r.Name, r.Version, r.Arch)
}

// rpmID returns the ID of an rpm. Its version is [epoch:]version-release.
func rpmID(name string, epoch uint64, version, release, arch string) bundle.HostPackageID {
	version += "-" + release
	if epoch != 0 {
		version = strconv.FormatUint(epoch, 10) + ":" + version
	}
	return bundle.HostPackageID{Name: name, Version: version, Arch: arch}
}
