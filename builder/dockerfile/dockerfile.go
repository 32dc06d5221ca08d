// Package dockerfile runs Dockerfiles whose images write files to /out, which is how an add-on makes packages that no archive has. The
// engine is the first of buildah, podman, docker and buildctl that is installed.
//
// Base images are pulled through mirrors and by digest, so that a build uses exactly what was resolved. A build sees only the files of a
// context, which it gets as a copy. Its results are cached and reused until the Dockerfile, its arguments, its base images or its context
// change. What the build itself downloads is beyond this package's control.
package dockerfile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/mirror"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/filelock"
	"github.com/sealift/sealift/internal/sha256hex"
	"github.com/sealift/sealift/internal/trust"
)

// Build is one Dockerfile to run for one platform, with everything that its result follows from.
type Build struct {
	Target     string            `json:"target"`     // the folder for the files, such as rhel-9
	Dockerfile string            `json:"dockerfile"` // as the Manifest names it
	Platform   string            `json:"platform"`   // such as linux/amd64
	Args       map[string]string `json:"args,omitempty"`
	Bases      []Base            `json:"bases,omitempty"`
	SHA256     string            `json:"sha256"` // of the Dockerfile with its base images pinned
	Context    *Context          `json:"context,omitempty"`

	plan *Plan
}

// Base is an image that a Dockerfile names.
type Base struct {
	Written    string `json:"-"`          // as written in the Dockerfile
	Repository string `json:"repository"` // full name, such as docker.io/library/busybox
	Digest     string `json:"digest"`     // sha256:<hex>
}

// New starts a build of a settled Dockerfile whose base images are known; files may be nil.
func New(target, file, platform string, args map[string]string, plan *Plan, bases []Base, files *Context) (Build, error) {
	b := Build{Target: target, Dockerfile: file, Platform: platform, Args: args, Bases: bases, Context: files, plan: plan}
	content, err := plan.Render(pins(bases, func(repository string) string { return repository }))
	if err != nil {
		return Build{}, err
	}
	b.SHA256 = sha256hex.Of(content)
	return b, nil
}

func pins(bases []Base, place func(repository string) string) map[string]string {
	pinned := make(map[string]string)
	for _, b := range bases {
		pinned[b.Written] = place(b.Repository) + "@" + b.Digest
	}
	return pinned
}

// Output is a file that a build wrote to /out.
type Output struct {
	Path string `json:"path"` // relative to /out
	bundle.Blob
	Executable bool `json:"executable,omitempty"`
}

// Pack is the file's path below dir in a package.
func (f Output) Pack(dir string, c *cache.Cache) bundle.File {
	packed := c.File(path.Join(dir, f.Path), f.Blob)
	if f.Executable {
		packed.Mode = 0o755
	}
	return packed
}

// DefaultTimeout bounds one build.
const DefaultTimeout = time.Hour

// Options configures how Dockerfiles are built.
type Options struct {
	Cache   *cache.Cache
	Mirrors mirror.Set
	Engine  string        // one of Engines; empty means the first installed one
	Timeout time.Duration // of one build; 0 means DefaultTimeout
	CAs     trust.CAs     // of registries
}

// Source builds Dockerfiles. It may be used from several goroutines; builds run one at a time.
type Source struct {
	options Options

	mu     sync.Mutex
	engine string // once it is found
}

// NewSource returns a source of files that Dockerfiles make.
func NewSource(o Options) *Source {
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	return &Source{options: o}
}

// results is the kind of fact that the cache keeps of a build.
const results = "dockerout"

// Files returns the files that a build wrote, ordered by path, from the cache or by running it.
func (s *Source) Files(ctx context.Context, b Build) ([]Output, error) {
	key, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var files []Output
	if s.options.Cache.Recall(results, string(key), &files) && s.cached(files) {
		return files, nil
	}
	if files, err = s.build(ctx, b); err != nil {
		return nil, fmt.Errorf("build %s for %s on %s: %w", b.Dockerfile, b.Target, b.Platform, err)
	}
	return files, s.options.Cache.Remember(results, string(key), files)
}

func (s *Source) cached(files []Output) bool {
	return len(files) > 0 && !slices.ContainsFunc(files, func(f Output) bool {
		size, ok := s.options.Cache.Use(f.SHA256)
		return !ok || size != f.Size
	})
}

func (s *Source) build(ctx context.Context, b Build) (files []Output, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.Timeout, fmt.Errorf("not done after %s", s.options.Timeout))
	defer cancel()
	if s.engine == "" {
		if s.engine, err = FindEngine(ctx, s.options.Engine); err != nil {
			return nil, err
		}
	}
	j := job{engine: s.engine, args: b.Args, platform: b.Platform, context: b.Context, cas: s.options.CAs}
	if j.content, err = b.plan.Render(pins(b.Bases, func(repository string) string {
		place, plainHTTP := s.options.Mirrors.Repository(repository)
		// Registries on this machine need no TLS, by the same rule that images are fetched by.
		if parsed, err := name.NewRepository(place); err == nil && parsed.Scheme() == "http" {
			plainHTTP = true
		}
		j.plainHTTP = j.plainHTTP || plainHTTP
		return place
	})); err != nil {
		return nil, err
	}
	parent, err := s.options.Cache.Sub("engine")
	if err != nil {
		return nil, err
	}
	release, err := filelock.WaitFile(ctx, filepath.Join(parent, "lock"))
	if err != nil {
		return nil, err
	}
	defer release()
	if err := sweep(parent, s.engine); err != nil {
		return nil, err
	}
	if j.directory, err = os.MkdirTemp(parent, directoryPrefix); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.clean()) }()
	if j.running, err = os.MkdirTemp("", "sealift-"); err != nil {
		return nil, err
	}
	out, err := j.run(ctx)
	if err != nil {
		return nil, err
	}
	return s.store(out)
}

// directoryPrefix starts the names of builds' directories.
const directoryPrefix = "build-"

// sweep removes what killed builds left, while no other build runs.
func sweep(parent, engine string) error {
	left, err := filepath.Glob(filepath.Join(parent, directoryPrefix+"*"))
	for _, directory := range left {
		err = errors.Join(err, job{engine: engine, directory: directory, running: directory}.clean())
	}
	return err
}

// store stores the files below dir in the cache.
func (s *Source) store(dir string) ([]Output, error) {
	var files []Output
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	err = fs.WalkDir(root.FS(), ".", func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if strings.ContainsAny(file, "\\\n\r") || !filepath.IsLocal(file) {
			return fmt.Errorf("it wrote a file named %q, which is not a valid name in a package", file)
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("it wrote %s/%s, which is neither a file nor a directory", outDir, file)
		}
		f, err := s.take(root, file)
		f.Executable = info.Mode()&0o111 != 0
		files = append(files, f)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("it wrote no files to %s; the CMD of its last stage must copy them there", outDir)
	}
	return files, nil
}

func (s *Source) take(root *os.Root, file string) (Output, error) {
	content, err := root.Open(file)
	if err != nil {
		return Output{}, err
	}
	defer func() { _ = content.Close() }()
	w, err := s.options.Cache.Create()
	if err != nil {
		return Output{}, err
	}
	defer w.Discard()
	if _, err := io.Copy(w, content); err != nil {
		return Output{}, err
	}
	digest, err := w.Commit("")
	return Output{Path: file, Blob: bundle.Blob{SHA256: digest, Size: w.Size()}}, err
}
