// Package kind builds each kind of directive: it resolves names, lists what to fetch for them, and returns the resulting files
// of the package.
//
// Each kind is a file of this package and a line of newKinds. The rest of the builder knows no kind by name: it resolves all of
// them, fetches their content into the cache, and packs it.
package kind

import (
	"context"
	"log/slog"
	"os"

	"github.com/sealift/sealift/builder/asset"
	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/chart"
	"github.com/sealift/sealift/builder/dockerfile"
	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/hostpkg"
	"github.com/sealift/sealift/builder/image"
	"github.com/sealift/sealift/builder/lock"
	"github.com/sealift/sealift/builder/mirror"
	"github.com/sealift/sealift/builder/sbom"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/cosign"
	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/trust"
	"github.com/sealift/sealift/manifest"
	"github.com/sealift/sealift/manifest/repository"
)

// kind is one kind of directive. It does more by implementing the interfaces below.
type kind interface {
	// resolve begins to resolve the directives of the kind, and reports failures to r.
	resolve(ctx context.Context, r *resolving) part
}

// The optional interfaces of a kind.
type (
	// skipper warns of the directives that this build leaves out.
	skipper interface {
		leftOut(m *manifest.File, list *diag.List)
	}
	// remote lists the roots of the servers that the directives name, or of their mirrors.
	remote interface {
		servers(m *manifest.File) []string
	}
	// comparer compares what two packages carry for directives of the kind.
	comparer interface {
		changes(m *manifest.File, was, now bundle.Contents) []string
	}
	// maker reports whether a file of a package comes from a directive of the kind. The name is relative to the add-on's directory.
	maker interface {
		made(p bundle.PackageInfo, name string) bool
	}
	// keeper copies an earlier lock of other targets and platforms into a lock, as far as the Manifest still needs it.
	keeper interface {
		keep(a AddOn, now *lock.Lock, was lock.Lock)
	}
)

// part is the result of resolving the directives of one kind. Its JSON names everything that the bytes of the package follow
// from. It does more by implementing the interfaces below.
type part interface {
	// lock adds the resolved content to a lock.
	lock(l *lock.Lock)
}

// The optional interfaces of a part, in the order in which a build calls them.
type (
	// finisher completes the part when everything is resolved.
	finisher interface {
		finish(m *manifest.File)
	}
	// warner returns warnings about the resolved content.
	warner interface {
		warn(m *manifest.File, list *diag.List)
	}
	// carrier lists the images that the package carries.
	carrier interface {
		images() []image.Resolved
	}
	// describer adds the kind's entries to the index of the package.
	describer interface {
		describe(p *bundle.Package)
	}
	// downloader lists the content to fetch.
	downloader interface {
		transfers() []transfer
	}
	// counter returns how many bytes were transferred to resolve the part.
	counter interface {
		fetched() int64
	}
	// runner checks fetched content, and builds the rest when everything is cached.
	runner interface {
		run(ctx context.Context, wrong *faults) error
	}
	// packer lists the files of the package, below dir. Images are not among them.
	packer interface {
		files(dir string) ([]bundle.File, error)
	}
	// documenter adds the kind's entries to the bill of materials. The package is described by then, and its files are listed.
	documenter interface {
		materials(ctx context.Context, p bundle.Package, s *sbom.Subject) error
	}
)

// only returns the elements of a list that implement T, in order.
func only[T, E any](list []E) []T {
	var found []T
	for _, one := range list {
		if t, ok := any(one).(T); ok {
			found = append(found, t)
		}
	}
	return found
}

// Options configures how directives are resolved and fetched.
type Options struct {
	Cache     *cache.Cache
	Fetcher   fetch.Fetcher // brings blobs into Cache
	Vouched   []string      // digests of .deb files that signed indexes have
	Retry     fetch.Retry
	Mirrors   mirror.Set
	Platforms []string         // to build for
	Targets   []hostpkg.Target // to build for
	Known     []hostpkg.Target // all that are configured; their keys check packages
	Jobs      int              // maximum number at once
	Engine    string           // runs Dockerfiles
	CAs       trust.CAs        // that servers are trusted by
	Charts    helm.Renderer    // renders charts
	Log       *slog.Logger
	// WithoutReferrers leaves out what upstream has attached to images.
	WithoutReferrers bool
	Signatures       cosign.Policy  // that carried images must meet
	Keyless          cosign.Keyless // verifies identities of Signatures
}

// Set is all kinds of directive. It may be used from several goroutines.
type Set struct {
	options Options
	kinds   []kind
}

// NewSet returns the kinds. They share connections, and their data about archives.
func NewSet(o Options) *Set { return &Set{options: o, kinds: newKinds(o)} }

// newKinds is where the kinds are registered, in the order in which packages and reports have them. The slowest are last in the
// list, and start first.
func newKinds(o Options) []kind {
	transport := fetch.NewTransport(o.CAs)
	client := fetch.Client{Transport: transport}
	images := newImages(o, image.NewSource(image.Options{Cache: o.Cache, Fetcher: o.Fetcher, Mirrors: o.Mirrors, Retry: o.Retry, Transport: transport}))
	assets := asset.NewSource(asset.Options{Cache: o.Cache, Fetcher: o.Fetcher, Mirrors: o.Mirrors, Client: client})
	charts := chart.NewSource(chart.Options{Cache: o.Cache, Fetcher: o.Fetcher, Mirrors: o.Mirrors, Images: images.source, Transport: transport})
	packages := hostpkg.NewSource(hostpkg.Options{Cache: o.Cache, Fetcher: o.Fetcher, Vouched: o.Vouched, Mirrors: o.Mirrors, Client: client, Targets: o.Known})
	dockerfiles := dockerfile.NewSource(dockerfile.Options{Cache: o.Cache, Mirrors: o.Mirrors, Engine: o.Engine, CAs: o.CAs})
	return []kind{
		images,
		&assetKind{options: o, source: assets},
		&hostPackageKind{options: o, source: packages},
		&chartKind{options: o, source: charts, images: images},
		&dockeroutKind{options: o, source: dockerfiles, images: images},
	}
}

// AddOn is the add-on whose directives are resolved.
type AddOn struct {
	Named      string // its directory, as the user names it
	Manifest   *manifest.File
	Repository *repository.Repository
	// Open opens a file by its path from the directory of the Manifest.
	Open func(name string) (*os.File, error)
}
