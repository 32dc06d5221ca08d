package kurl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/store"
)

// Store is a store whose packages may have been built by kURL. Reading one of those returns the package that Import makes of it.
// A folder keeps these packages by the digest of kURL's; Import makes the same bytes each time.
type Store struct {
	store.Store
	dir  string
	lock chan struct{} // held while importing: one import at a time uses the disk and the CPUs

	mu      sync.Mutex
	kept    store.Store       // in dir, once it is needed
	seen    map[string]origin // by key
	refused map[string]error  // by digest: why an archive cannot be imported
}

// origin describes one version of a value.
type origin struct {
	version string
	digest  string // sha256 of kURL's package; empty for a package of Sealift's
}

// NewStore decorates a store; dir is where the packages are kept that were made.
func NewStore(s store.Store, dir string) *Store {
	return &Store{Store: s, dir: dir, lock: make(chan struct{}, 1), seen: make(map[string]origin), refused: make(map[string]error)}
}

// Unwrap returns the decorated store, for store.As.
func (s *Store) Unwrap() store.Store { return s.Store }

// Get opens a value. A package in another format than Sealift's is imported.
func (s *Store) Get(ctx context.Context, key string) (store.Object, error) {
	object, err := s.Store.Get(ctx, key)
	if err != nil || !strings.HasSuffix(key, ".tar.gz") {
		return object, err
	}
	digest, err := s.origin(ctx, key, object)
	if err == nil && digest == "" {
		return object, nil
	}
	var made store.Object
	if err == nil {
		made, err = s.imported(ctx, key, digest, object)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("import the kURL package %s: %w", key, err), object.Close())
	}
	return made, object.Close()
}

// Presign implements store.Presigner. A package that kURL built has no URL: the store has its original bytes.
func (s *Store) Presign(ctx context.Context, key string, valid time.Duration) (string, error) {
	presigner, ok := s.Store.(store.Presigner)
	if !ok {
		return "", nil
	}
	object, err := s.Store.Get(ctx, key)
	if err != nil {
		return "", err
	}
	defer object.Close()
	if digest, err := s.origin(ctx, key, object); err != nil || digest != "" {
		return "", err
	}
	return presigner.Presign(ctx, key, valid)
}

// origin returns the digest of a package that kURL built, and "" for any other value. Each value is checked once.
func (s *Store) origin(ctx context.Context, key string, object store.Object) (digest string, err error) {
	s.mu.Lock()
	known, ok := s.seen[key]
	s.mu.Unlock()
	if version := object.Version(); ok && version != "" && known.version == version {
		return known.digest, nil
	}
	switch _, err := bundle.NewArchive(object, object.Size()); {
	case errors.Is(err, bundle.ErrForeign):
		if digest, err = digestOf(ctx, object); err != nil {
			return "", err
		}
	case err != nil:
		return "", nil // the reader reports other faults
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[key] = origin{version: object.Version(), digest: digest}
	return digest, nil
}

func digestOf(ctx context.Context, object store.Object) (string, error) {
	if known := object.SHA256(); known != "" {
		return known, nil
	}
	v, err := store.Sum(ctx, object, object.Size())
	return v.SHA256, err
}

// imported returns the package converted from one of kURL's, and converts it if necessary.
func (s *Store) imported(ctx context.Context, key, digest string, object store.Object) (store.Object, error) {
	kept, err := s.keep()
	if err != nil {
		return nil, err
	}
	name := path.Join(digest, path.Base(key))
	known := func() (store.Object, error) { // neither, if nobody has tried
		if made, err := kept.Get(ctx, name); err == nil {
			return made, nil
		}
		return nil, s.refusal(digest)
	}
	if made, err := known(); made != nil || err != nil {
		return made, err
	}
	select {
	case s.lock <- struct{}{}:
		defer func() { <-s.lock }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if made, err := known(); made != nil || err != nil { // another request or process has just tried
		return made, err
	}
	result, err := Import(ctx, io.NewSectionReader(object, 0, object.Size()), Options{Dir: filepath.Join(s.dir, digest), Spool: s.dir})
	if isRefusal(err) {
		return nil, s.refuse(digest, err)
	}
	if err != nil {
		return nil, err
	}
	for _, made := range result.Packages {
		if filepath.Base(made.File) == path.Base(key) {
			return kept.Get(ctx, name)
		}
	}
	return nil, s.refuse(digest, fmt.Errorf("it has %s %s instead", result.Packages[0].Name, result.Packages[0].Version))
}

// refusedError says why an archive of kURL's cannot be imported. For errors.Is, it is bundle.ErrForeign.
type refusedError struct{ error }

// Is implements the interface of errors.Is.
func (e *refusedError) Is(target error) bool { return target == bundle.ErrForeign }

// Unwrap returns the cause.
func (e *refusedError) Unwrap() error { return e.error }

// isRefusal reports whether another attempt would fail, too. Where an import fails for several reasons, such as a wrong Manifest and a full
// disk, each of them must be a refusal.
func isRefusal(err error) bool {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(many.Unwrap(), func(one error) bool { return !isRefusal(one) })
	}
	_, empty := errors.AsType[*NoAddOnError](err)
	_, large := errors.AsType[*tooLargeError](err)
	_, wrong := errors.AsType[diag.Errors](err)
	_, faulty := errors.AsType[*archiveError](err)
	return empty || large || wrong || faulty
}

// refuse notes why an archive cannot be imported. It is not read again.
func (s *Store) refuse(digest string, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[digest] = &refusedError{err}
	return s.refused[digest]
}

func (s *Store) refusal(digest string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused[digest]
}

// keep opens the folder of the packages that were made. Most stores never need it.
func (s *Store) keep() (store.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept != nil {
		return s.kept, nil
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, err
	}
	kept, err := store.Open(s.dir)
	s.kept = kept
	return kept, err
}
