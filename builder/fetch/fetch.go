// Package fetch brings bytes into the cache: verified on arrival, resumed after interruptions, retried after transient
// failures, once per digest, and with progress. The kinds of things in a Manifest differ in how they are located. After
// that, each is a Blob and uses the same Fetcher.
//
// A Fetcher is built from decorators of one interface. New composes them in the order that a build needs.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/sealift/sealift/builder/cache"
)

// Blob is something to fetch, with either From or Open.
type Blob struct {
	Name   string // name in errors and progress bars
	SHA256 string // lower-case hex; empty if not known in advance
	Size   int64  // bytes; 0 if not known in advance
	Limit  int64  // most bytes accepted if Size is 0; 0 means no limit
	// From returns the location of the blob. Its transfers can be resumed, even after the process ends.
	From func(ctx context.Context) (Location, error)
	// Open starts a transfer from another source. It cannot be resumed. size is the announced size, or -1.
	Open func(ctx context.Context) (body io.ReadCloser, size int64, err error)

	// watch observes every attempt. left is the number of remaining bytes, or -1.
	watch func(body io.Reader, left int64) io.Reader
}

// Stored is a blob that the cache has.
type Stored struct {
	SHA256      string
	Size        int64
	Transferred int64   // bytes; less than Size if a transfer was resumed
	Cached      bool    // this caller transferred nothing
	Version     Version // the server's version; empty if Cached
}

// Fetcher fetches a blob into the cache. It may be called from several goroutines.
type Fetcher interface {
	Fetch(ctx context.Context, b Blob) (Stored, error)
}

type fetcherFunc func(ctx context.Context, b Blob) (Stored, error)

func (f fetcherFunc) Fetch(ctx context.Context, b Blob) (Stored, error) { return f(ctx, b) }

// New returns the fetcher of a build. It does not transfer what the cache has, transfers each digest once, and retries
// transient failures.
func New(c *cache.Cache, retry Retry, progress Progress) Fetcher {
	return Once(Cached(Upstream(c, retry, progress), c))
}

// Upstream returns the part of New that transfers blobs from their origin.
func Upstream(c *cache.Cache, retry Retry, progress Progress) Fetcher {
	return Retrying(Reporting(Into(c), progress), retry)
}

// Into returns the innermost fetcher. It transfers, verifies and stores in one pass over the bytes.
func Into(c *cache.Cache) Fetcher {
	return fetcherFunc(func(ctx context.Context, b Blob) (Stored, error) {
		if b.From != nil {
			return continued(ctx, c, b)
		}
		return whole(ctx, c, b)
	})
}

// whole fetches a blob with Open.
func whole(ctx context.Context, c *cache.Cache, b Blob) (Stored, error) {
	body, announced, err := b.Open(ctx)
	if err != nil {
		return Stored{}, err
	}
	defer func() { _ = body.Close() }()
	w, err := c.Create()
	if err != nil {
		return Stored{}, err
	}
	defer w.Discard()
	if err := take(b, w, body, announced); err != nil {
		return Stored{}, err
	}
	digest, err := w.Commit(b.SHA256)
	if err != nil {
		return Stored{}, err
	}
	return Stored{SHA256: digest, Size: w.Size(), Transferred: w.Size()}, nil
}

// take appends the body to w. announced is the size of the whole blob, or -1.
func take(b Blob, w *cache.Writer, body io.Reader, announced int64) error {
	limit, err := sizeLimit(b, announced)
	if err != nil {
		return err
	}
	if b.Size > 0 {
		announced = b.Size
	}
	if b.watch != nil {
		body = b.watch(body, max(announced-w.Size(), -1))
	}
	// One byte beyond the limit shows that the body is too large.
	if _, err := io.Copy(w, io.LimitReader(body, limit+1-w.Size())); err != nil {
		return fmt.Errorf("after %d bytes: %w", w.Size(), err)
	}
	switch {
	case w.Size() > limit:
		return fmt.Errorf("more than the %d bytes expected: %w", limit, cache.ErrMismatch)
	case announced > 0 && w.Size() < announced:
		return fmt.Errorf("ended after %d of %d bytes: %w", w.Size(), announced, io.ErrUnexpectedEOF)
	}
	return nil
}

// unlimited stands for no limit. It leaves room for the one byte that is read beyond a limit.
const unlimited = 1<<63 - 2

func sizeLimit(b Blob, announced int64) (int64, error) {
	limit := b.Size
	if limit == 0 {
		limit = b.Limit
	}
	if limit == 0 {
		limit = unlimited
	}
	switch {
	case b.Size > 0 && announced >= 0 && announced != b.Size:
		return 0, fmt.Errorf("the server offers %d bytes, want %d: %w", announced, b.Size, cache.ErrMismatch)
	case announced > limit:
		return 0, fmt.Errorf("the server offers %d bytes, want at most %d: %w", announced, limit, cache.ErrMismatch)
	}
	return limit, nil
}

// Cached returns a fetcher that calls f only for blobs that the cache lacks. A file of the wrong size counts as missing.
// The content is verified when it is packed.
func Cached(f Fetcher, c *cache.Cache) Fetcher {
	return fetcherFunc(func(ctx context.Context, b Blob) (Stored, error) {
		if b.SHA256 != "" {
			if stored, ok := cached(c, b); ok {
				return stored, nil
			}
		}
		return f.Fetch(ctx, b)
	})
}

func cached(c *cache.Cache, b Blob) (Stored, bool) {
	size, ok := c.Use(b.SHA256)
	return Stored{SHA256: b.SHA256, Size: size, Cached: true}, ok && (b.Size == 0 || size == b.Size)
}

// Once returns a fetcher that calls f once at a time for each digest. Other callers for that digest wait. Blobs without a
// digest go straight to f.
func Once(f Fetcher) Fetcher {
	return &once{next: f, flights: make(map[string]*flight)}
}

type once struct {
	next    Fetcher
	mu      sync.Mutex
	flights map[string]*flight
}

type flight struct {
	done   chan struct{}
	stored Stored
	err    error
}

func (o *once) Fetch(ctx context.Context, b Blob) (Stored, error) {
	if b.SHA256 == "" {
		return o.next.Fetch(ctx, b)
	}
	for {
		o.mu.Lock()
		f, flying := o.flights[b.SHA256]
		if !flying {
			f = &flight{done: make(chan struct{})}
			o.flights[b.SHA256] = f
		}
		o.mu.Unlock()
		if !flying {
			f.stored, f.err = o.next.Fetch(ctx, b)
			o.mu.Lock()
			delete(o.flights, b.SHA256)
			o.mu.Unlock()
			close(f.done)
			return f.stored, f.err
		}
		select {
		case <-ctx.Done():
			return Stored{}, context.Cause(ctx)
		case <-f.done:
		}
		// The other caller may have been cancelled. Then this caller fetches the blob itself.
		if !errors.Is(f.err, context.Canceled) && !errors.Is(f.err, context.DeadlineExceeded) {
			stored := f.stored
			stored.Cached, stored.Transferred = f.err == nil, 0
			return stored, f.err
		}
	}
}
