package kurl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/store"
)

// Store is a store whose packages may have been built by kURL: reading one gives the package that Import makes of it. What was
// made is kept in a folder by the digest of what it was made from. Import makes the same bytes each time.
type Store struct {
	store.Store
	dir string
}

// NewStore decorates a store; dir is where the packages are kept that were made.
func NewStore(s store.Store, dir string) *Store { return &Store{s, dir} }

// Get opens a value. A package that is no archive of Sealift's is imported.
func (s *Store) Get(ctx context.Context, key string) (store.Object, error) {
	object, err := s.Store.Get(ctx, key)
	if err != nil || !strings.HasSuffix(key, ".tar.gz") {
		return object, err
	}
	if _, err := bundle.NewArchive(object, object.Size()); !errors.Is(err, bundle.ErrForeign) {
		return object, nil // what else is wrong with it, the reader finds out
	}
	made, err := s.imported(ctx, key, object)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take in the package %s of kURL: %w", key, err), object.Close())
	}
	return made, object.Close()
}

func (s *Store) imported(ctx context.Context, key string, object store.Object) (store.Object, error) {
	digest := object.SHA256()
	if digest == "" {
		v, err := store.Sum(ctx, object, object.Size())
		if err != nil {
			return nil, err
		}
		digest = v.SHA256
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, err
	}
	kept, err := store.Open(s.dir)
	if err != nil {
		return nil, err
	}
	name := path.Join(digest, path.Base(key))
	if made, err := kept.Get(ctx, name); err == nil {
		return made, nil
	}
	result, err := Import(ctx, io.NewSectionReader(object, 0, object.Size()), Options{Dir: filepath.Join(s.dir, digest), Spool: s.dir})
	if err != nil {
		return nil, err
	}
	for _, made := range result.Packages {
		if filepath.Base(made.File) == path.Base(key) {
			return kept.Get(ctx, name)
		}
	}
	return nil, fmt.Errorf("it has %s %s instead", result.Packages[0].Name, result.Packages[0].Version)
}
