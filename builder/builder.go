// Package builder turns an add-on directory with a Manifest into a package: it resolves every directive, fetches it through
// mirrors into a cache, and packs all of it with the add-on's own files.
//
// Each step passes plain data to the next: manifest.File → Resolution → the cache's blobs → bundle.Package. The same resolution
// yields the same bytes at any number of jobs. The package needs no root and runs nothing of an add-on.
package builder

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/config"
	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/keyless"
	"github.com/sealift/sealift/builder/kind"
	"github.com/sealift/sealift/builder/license"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/cosign"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/platform"
	"github.com/sealift/sealift/internal/trust"
	"github.com/sealift/sealift/store"
)

// DefaultPlatform is what packages are built for unless asked otherwise.
const DefaultPlatform = "linux/amd64"

// Options configures how packages are built.
type Options struct {
	Config    config.Config
	Targets   []string // names of targets; empty means the default ones of Config
	Platforms []string // empty means DefaultPlatform
	Jobs      int      // number of concurrent transfers and of files compressed at once; 0 means one for each CPU but at least four
	Retry     fetch.Retry
	Progress  fetch.Progress // may be nil
	Log       *slog.Logger   // nil means to log nothing
	Key       *signature.Key // signs the packages; nil means not to
	Locked    bool           // refuse to build anything that is not in Manifest.lock
	// ImageFormat is the format of images in packages; empty means OCILayout.
	ImageFormat ImageFormat
	Charts      helm.Renderer // renders charts; nil for Manifests without any
	CAs         trust.CAs     // that servers are trusted by
	Engine      string        // runs Dockerfiles, one of dockerfile.Engines; empty means the first installed one
	Shared      store.Store   // has blobs that builds on several machines share, and gets those that it lacks; nil for none
	// Vouched are digests of .deb files that the caller has found in signed indexes of their archives; see Sources.
	Vouched []string
	// WithoutReferrers leaves out signatures, SBOMs and attestations that upstream has attached to images. DockerArchive always does.
	WithoutReferrers bool
}

// ImageFormat is the format of images in a package.
type ImageFormat string

// The formats of images.
const (
	OCILayout     ImageFormat = "oci"            // one layout, each layer once, as the registry has them
	DockerArchive ImageFormat = "docker-archive" // one file for each image, as kURL's packages have them
	Lean          ImageFormat = "lean"           // a layout with each layer compressed again
)

// ImageFormats returns all formats of images.
func ImageFormats() []ImageFormat { return []ImageFormat{OCILayout, Lean, DockerArchive} }

// Builder builds packages. It keeps connections and knowledge of archives between them.
type Builder struct {
	cache     *cache.Cache
	platforms []string
	jobs      int
	key       *signature.Key
	locked    bool
	format    ImageFormat
	log       *slog.Logger
	kinds     *kind.Set
	charts    helm.Renderer
	policy    cosign.Policy
	licenses  license.Policy
}

// New returns a builder that fetches into c. It fails when the options name what does not exist.
func New(c *cache.Cache, o Options) (*Builder, error) {
	b := &Builder{cache: c, jobs: o.Jobs, key: o.Key, locked: o.Locked, format: o.ImageFormat, log: o.Log, charts: o.Charts, policy: o.Config.Signatures, licenses: o.Config.Licenses}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	if b.jobs <= 0 {
		b.jobs = max(4, runtime.NumCPU())
	}
	if b.platforms = distinct(o.Platforms); len(b.platforms) == 0 {
		b.platforms = []string{DefaultPlatform}
	}
	var errs []error
	for _, p := range b.platforms {
		if _, err := platform.Parse(p); err != nil {
			errs = append(errs, err)
		}
	}
	switch {
	case b.format == "":
		b.format = OCILayout
	case !slices.Contains(ImageFormats(), b.format):
		errs = append(errs, fmt.Errorf("image format %q is not one of %v", b.format, ImageFormats()))
	case b.format == DockerArchive && len(b.platforms) > 1:
		errs = append(errs, fmt.Errorf("image format %s holds one platform, not %d; build a package for each", b.format, len(b.platforms)))
	}
	wanted := o.Targets
	if len(wanted) == 0 {
		wanted = o.Config.DefaultTargets
	}
	targets := o.Config.Targets
	if len(wanted) > 0 {
		targets = nil
	}
	for _, name := range distinct(wanted) {
		t, err := o.Config.Target(name)
		errs = append(errs, err)
		targets = append(targets, t)
	}
	fetcher := fetch.New(c, o.Retry, o.Progress)
	if o.Shared != nil {
		fetcher = fetch.Once(fetch.Cached(fetch.Shared(fetch.Upstream(c, o.Retry, o.Progress), c, o.Shared, b.log), c))
	}
	identities, err := keyless.New(o.Config.Signatures)
	errs = append(errs, err)
	b.kinds = kind.NewSet(kind.Options{
		Cache: c, Fetcher: fetcher, Vouched: o.Vouched, Retry: o.Retry, Mirrors: o.Config.Mirrors, Platforms: b.platforms,
		Targets: targets, Known: o.Config.Targets, Jobs: b.jobs, Engine: o.Engine, CAs: o.CAs, Charts: o.Charts, Log: b.log,
		WithoutReferrers: o.WithoutReferrers || b.format == DockerArchive, Signatures: o.Config.Signatures, Keyless: identities,
	})
	return b, errors.Join(errs...)
}

// distinct sorts names and removes duplicates, so that the order of the request does not affect the package.
func distinct(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

// Result describes a package that was built.
type Result struct {
	Name     string         `json:"name"`
	Version  string         `json:"version"`
	Path     string         `json:"path"`
	Size     int64          `json:"size"` // bytes
	SHA256   string         `json:"sha256"`
	UpToDate bool           `json:"upToDate"` // a package of the same input existed and is unchanged
	Fetched  int64          `json:"fetched"`  // bytes of layers, packages and assets that were transferred
	Seconds  float64        `json:"seconds"`
	Warnings []diag.Finding `json:"warnings,omitempty"`
}

// Build builds the package of the add-on in dir, addons/<name>/<version>, as <name>-<version>.tar.gz in the directory out, which
// it makes if necessary. Locked content is used as Manifest.lock describes it. The file appears when it is complete, and an
// up-to-date one is kept. Mistakes in the Manifest or addon.yaml, and failed fetches are returned as one diag.Errors with every fault.
func (b *Builder) Build(ctx context.Context, dir, out string) (Result, error) {
	start := time.Now()
	a, err := openAddOn(dir)
	if err != nil {
		return Result{}, err
	}
	defer a.close()
	if err := a.checkMeta(); err != nil {
		return Result{}, err
	}
	r := Result{Name: a.name, Version: a.version, Warnings: b.warnings(a.manifest)}
	own, err := a.files(bundle.AddOnDir(a.name, a.version))
	if err != nil {
		return Result{}, err
	}
	b.log.Info("resolving", "add-on", a.name, "version", a.version)
	resolution, err := b.resolve(ctx, a)
	if err != nil {
		return Result{}, err
	}
	r.Warnings = append(r.Warnings, resolution.Warnings(a.manifest)...)
	r.Path = filepath.Join(out, a.name+"-"+a.version+".tar.gz")
	input, err := b.input(a, own, resolution)
	if err != nil {
		return Result{}, err
	}
	if r.Size, r.SHA256, r.UpToDate = b.upToDate(r.Path, input); r.UpToDate {
		r.Fetched = resolution.Fetched()
		r.Seconds = time.Since(start).Seconds()
		return r, nil
	}
	p := b.describe(a, resolution)
	b.log.Info("fetching", "add-on", a.name, "version", a.version, "images", len(p.Contents.Images),
		"assets", len(p.Contents.Assets), "hostPackages", len(p.Contents.HostPackages))
	if r.Fetched, err = resolution.Fetch(ctx); err != nil {
		return Result{}, err
	}
	if err := resolution.Run(ctx); err != nil {
		return Result{}, err
	}
	if p.Files, err = b.files(ctx, p, own, resolution); err != nil {
		return Result{}, fmt.Errorf("pack %s %s: %w", a.name, a.version, err)
	}
	if r.Size, r.SHA256, err = b.write(ctx, r.Path, p, input); err != nil {
		return Result{}, fmt.Errorf("write %s: %w", r.Path, err)
	}
	r.Seconds = time.Since(start).Seconds()
	return r, nil
}

// write writes a package under a temporary name beside path and renames it when it is complete on disk.
func (b *Builder) write(ctx context.Context, path string, p bundle.Package, input string) (size int64, digest string, err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, "", err
	}
	digests := make(map[string]bool, len(p.Files))
	for _, f := range p.Files {
		digests[f.SHA256] = true
	}
	spool, err := b.cache.Derived(digests)
	if err != nil {
		return 0, "", err
	}
	temporary := "." + filepath.Base(path) + ".*"
	if err := atomicfile.Sweep(dir, temporary); err != nil {
		return 0, "", err
	}
	f, err := atomicfile.Create(dir, temporary)
	if err != nil {
		return 0, "", err
	}
	defer f.Discard()
	sum := sha256.New()
	options := bundle.WriteOptions{Spool: spool, Jobs: b.jobs, Key: b.key, Sum: sum}
	if _, err := bundle.WritePackage(ctx, f.File, p, options); err != nil {
		return 0, "", b.explain(err, p)
	}
	if err := b.checkLicenses(ctx, f.File); err != nil {
		return 0, "", err
	}
	digest = hex.EncodeToString(sum.Sum(nil))
	info, err := f.Stat()
	if err != nil {
		return 0, "", err
	}
	if err := f.Commit(path, atomicfile.NewFileMode(0o644)); err != nil {
		return 0, "", err
	}
	return info.Size(), digest, b.remember(path, info, output{Input: input, SHA256: digest})
}

// explain looks for the reason why content was not what its digest promised. A damaged file of the cache is removed, so
// that building again heals it.
func (b *Builder) explain(err error, p bundle.Package) error {
	if _, ok := errors.AsType[*bundle.DigestError](err); !ok {
		return err
	}
	for _, f := range p.Files {
		if _, cached := b.cache.Stat(f.SHA256); cached && errors.Is(b.cache.Verify(f.SHA256), cache.ErrMismatch) {
			return fmt.Errorf("%w; the cached file was damaged and has been removed: build again", err)
		}
	}
	return fmt.Errorf("%w; the file changed during the build: build again", err)
}
