package fetch

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/store"
)

// SharedDir is the folder of a store with the blobs that builds share, named by their sha256.
const SharedDir = "blobs/sha256/"

// Shared returns a fetcher that looks for blobs in a store before it calls f, and puts there what f has fetched. Builds on other
// machines use the same store. Content of the store is verified like any other. A store that fails costs time only.
func Shared(f Fetcher, c *cache.Cache, s store.Store, log *slog.Logger) Fetcher {
	from := Into(c)
	return fetcherFunc(func(ctx context.Context, b Blob) (Stored, error) {
		if b.SHA256 == "" {
			return f.Fetch(ctx, b)
		}
		key := SharedDir + b.SHA256
		stored, err := from.Fetch(ctx, Blob{Name: b.Name, SHA256: b.SHA256, Size: b.Size, Limit: b.Limit, Open: func(ctx context.Context) (io.ReadCloser, int64, error) {
			value, err := s.Get(ctx, key)
			if err != nil {
				return nil, 0, err
			}
			return sharedBody{io.NewSectionReader(value, 0, value.Size()), value}, value.Size(), nil
		}})
		if err == nil {
			return stored, nil
		}
		if ctx.Err() != nil {
			return Stored{}, context.Cause(ctx)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			log.Warn("a shared blob is fetched from its source instead", "blob", b.Name, "error", err)
		}
		if stored, err = f.Fetch(ctx, b); err != nil {
			return stored, err
		}
		if err := share(ctx, c, s, key, b.SHA256); err != nil {
			log.Warn("a blob is not shared", "blob", b.Name, "error", err)
		}
		return stored, nil
	})
}

// sharedBody reads a value of a store.
type sharedBody struct {
	io.Reader
	io.Closer
}

// share puts a blob of the cache into the store, unless it is not what its name says.
func share(ctx context.Context, c *cache.Cache, s store.Store, key, digest string) error {
	f, err := c.Open(digest)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	value, err := store.Sum(ctx, f, info.Size())
	if err != nil {
		return err
	}
	if value.SHA256 != digest {
		return cache.ErrMismatch
	}
	_, err = s.Put(ctx, key, value)
	return err
}
