// Package fetch brings bytes from outside into the cache: verified while they arrive, continued where they were cut off,
// retried when the network was to blame, each digest once, with someone watching. The kinds of things a Manifest names differ in how their bytes are
// found; from then on all of them are a Blob and go through the same Fetcher.
//
// A Fetcher is built from decorators of one interface; New puts them together in the order that a build needs.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/sealift/sealift/builder/cache"
)

// Blob is something to bring into the cache, by way of either From or Open.
type Blob struct {
	Name   string // what a person calls it; it stands in errors and beside progress bars
	SHA256 string // lower-case hex; empty when the content is not known beforehand
	Size   int64  // bytes; 0 when not known beforehand
	Limit  int64  // the most bytes accepted when Size is 0; 0 means no limit
	// From finds out where the blob lies. A transfer that was cut, even by the end of its process, is continued.
	From func(ctx context.Context) (Location, error)
	// Open starts a transfer from elsewhere, which is never continued. Size is what the source announces, or -1.
	Open func(ctx context.Context) (body io.ReadCloser, size int64, err error)

	// watch is told of every attempt: how many bytes are still to come, or -1.
	watch func(body io.Reader, left int64) io.Reader
}

// Stored is a blob that the cache has.
type Stored struct {
	SHA256      string
	Size        int64
	Transferred int64   // bytes; less than Size when a transfer was continued
	Cached      bool    // nothing was transferred for this caller
	Version     Version // what its server called it; empty when Cached
}

// Fetcher brings a blob into the cache. It may be called from several goroutines.
type Fetcher interface {
	Fetch(ctx context.Context, b Blob) (Stored, error)
}

type fetcherFunc func(ctx context.Context, b Blob) (Stored, error)

func (f fetcherFunc) Fetch(ctx context.Context, b Blob) (Stored, error) { return f(ctx, b) }

// New returns the fetcher of a build: what the cache has is not transferred, what two ask for is transferred once, and
// transient failures are tried again.
func New(c *cache.Cache, retry Retry, progress Progress) Fetcher {
	return Once(Cached(Retrying(Reporting(Into(c), progress), retry), c))
}

// Into returns the fetcher at the bottom: it transfers, verifies and stores, in one pass over the bytes.
func Into(c *cache.Cache) Fetcher {
	return fetcherFunc(func(ctx context.Context, b Blob) (Stored, error) {
		if b.From != nil {
			return continued(ctx, c, b)
		}
		return whole(ctx, c, b)
	})
}

// whole fetches a blob by its Open.
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

// take writes what comes of a blob behind what w has of it. Announced is the size of the whole blob, or -1.
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
	// One byte beyond the limit is enough to know that there is more.
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

// unlimited stands for no limit and leaves room for the one byte that is read beyond a limit.
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
		return 0, fmt.Errorf("%d bytes are offered, %d expected: %w", announced, b.Size, cache.ErrMismatch)
	case announced > limit:
		return 0, fmt.Errorf("%d bytes are offered, at most %d expected: %w", announced, limit, cache.ErrMismatch)
	}
	return limit, nil
}

// Cached returns a fetcher that asks f only for what the cache lacks. A file of another size than expected counts as
// lacking; its content is verified when it is packed.
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

// Once returns a fetcher that passes each digest to f once at a time: who asks for a digest that is on its way waits for
// it. Blobs without a digest are passed on.
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
		// The one who flew may have given up for reasons of its own; then this caller tries itself.
		if !errors.Is(f.err, context.Canceled) && !errors.Is(f.err, context.DeadlineExceeded) {
			stored := f.stored
			stored.Cached, stored.Transferred = f.err == nil, 0
			return stored, f.err
		}
	}
}
