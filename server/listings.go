package server

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/sealift/sealift/store"
	"github.com/sealift/sealift/store/release"
)

// maxListings is the size of the cache of listings, in bytes.
const maxListings = 8 << 20

// listings is a store that caches its listings for a moment. However many clients request the newest version of a package, the
// store is listed once.
type listings struct {
	store.Store
	ctx    context.Context // for requests to the store, which several clients may wait for
	flight singleflight.Group
	known  *lru[*listing]
}

type listing struct {
	infos []store.Info
	made  time.Time
}

func newListings(ctx context.Context, s store.Store) *listings {
	return &listings{Store: s, ctx: ctx, known: newLRU[*listing](maxListings, nil)}
}

// List implements store.Store.
func (l *listings) List(ctx context.Context, prefix string) ([]store.Info, error) {
	found, err := share(ctx, &l.flight, prefix, func() (*listing, error) {
		if known, ok := l.known.get(prefix); ok && time.Since(known.made) < freshFor {
			return known, nil
		}
		ctx, cancel := context.WithTimeout(l.ctx, planTime)
		defer cancel()
		infos, err := l.Store.List(ctx, prefix)
		if err != nil {
			return nil, err
		}
		made := &listing{infos, time.Now()}
		size := int64(len(prefix) + 1<<10)
		for _, info := range infos {
			size += int64(len(info.Key)+len(info.Version)) + 64
		}
		l.known.put(prefix, made, size)
		return made, nil
	})
	if err != nil {
		return nil, err
	}
	return slices.Clone(found.infos), nil
}

// Unwrap returns the decorated store, for store.As.
func (l *listings) Unwrap() store.Store { return l.Store }

// share computes a value once for all callers that ask at the same time. Each caller waits until its own context ends.
func share[V any](ctx context.Context, flight *singleflight.Group, key string, make func() (V, error)) (none V, err error) {
	found := flight.DoChan(key, func() (any, error) { return make() })
	select {
	case <-ctx.Done():
		return none, context.Cause(ctx)
	case result := <-found:
		if result.Err != nil {
			return none, result.Err
		}
		return result.Val.(V), nil
	}
}

// maxCatalogues is the size of the cache of release indexes, in bytes.
const maxCatalogues = 8 << 20

// catalogue is the content of a release, as the pages and /api/packages show it.
type catalogue struct {
	index    release.Index
	text     []byte // in JSON
	versions []byte // of each add-on, in JSON
	made     time.Time
}

// catalogue returns the content of the release in a folder. It reads the store once for all requests within a moment.
func (s *Server) catalogue(ctx context.Context, folder string) (*catalogue, error) {
	return share(ctx, &s.plans.flight, "catalogue "+folder, func() (*catalogue, error) {
		if known, ok := s.catalogues.get(folder); ok && time.Since(known.made) < freshFor {
			return known, nil
		}
		ctx, cancel := context.WithTimeout(s.plans.ctx, planTime)
		defer cancel()
		packages := s.options.Packages
		packages.Folder = folder
		index, err := packages.List(ctx)
		if err != nil {
			return nil, err
		}
		text, err := encodeJSON(index)
		if err != nil {
			return nil, errors.New("encode the index of the release: " + err.Error())
		}
		versions, err := encodeJSON(versionsOf(index))
		if err != nil {
			return nil, errors.New("encode the versions of the release: " + err.Error())
		}
		made := &catalogue{index, text, versions, time.Now()}
		s.catalogues.put(folder, made, 3*int64(len(text))+int64(len(versions))+1<<10)
		return made, nil
	})
}
