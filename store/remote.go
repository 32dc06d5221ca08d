package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sealift/sealift/internal/transfer"
)

// ranges opens byte ranges of a remote object.
type ranges interface {
	// open requests n bytes from off on, of the object's version. If the server has another version, it returns ErrChanged.
	open(ctx context.Context, off, n int64) (io.ReadCloser, error)
}

// checkRange compares the Content-Range of a response with the request. It also compares the size: if a value is replaced
// during HEAD, a server may combine the old size with the new identity, and cut the range where the new value ends.
func checkRange(got string, off, n, size int64) error {
	want := fmt.Sprintf("bytes %d-%d/%d", off, off+n-1, size)
	if got == want {
		return nil
	}
	if _, text, ok := strings.Cut(got, "/"); ok {
		if total, err := strconv.ParseInt(text, 10, 64); err == nil && total != size {
			return fmt.Errorf("%w: its size changed from %d to %d bytes; start again", ErrChanged, size, total)
		}
	}
	return fmt.Errorf("asked for %q, got %q", want, got)
}

const (
	// firstWindow is requested ahead when reads begin at a new offset: an index, or a small file.
	firstWindow = 256 << 10
	// maxWindow is requested ahead after a long sequential read. It is streamed, not held in memory.
	maxWindow = 32 << 20
	// maxGap is the maximum number of bytes that are read and dropped to move forward within a response, instead of sending a new request.
	maxGap = 128 << 10
	// maxStreams is the maximum number of concurrent sequential reads: the image layers that a node loads at once.
	maxStreams = 16
)

// remote is an object behind a network. It is read by closed ranges that grow while reads are sequential. Bytes are
// streamed from the connection to the reader, so memory does not depend on the object's size.
type remote struct {
	ctx     context.Context // of Get
	name    string
	src     ranges
	size    int64
	version string
	digest  string // sha256, if known
	opener  Opener

	mu      sync.Mutex
	logged  time.Time // when the last failed read was logged
	idle    []*stream // the most recently used last
	dropped bool
}

// stream is one response in progress. off is its next byte, and end follows its last.
type stream struct {
	body     io.ReadCloser // nil after the last byte
	guard    *guard
	meter    *transfer.Meter
	off, end int64
	window   int64
}

// abort ends the response and keeps its position.
func (s *stream) abort() {
	if s.body != nil {
		_ = s.body.Close()
		s.guard.end()
		s.body = nil
	}
}

// finish ends the response. If few bytes are left, it drains them, so that the connection can be used again.
func (s *stream) finish() {
	if s.body != nil && s.end-s.off <= maxGap {
		s.guard.moved()
		_, _ = io.Copy(io.Discard, s.body)
	}
	s.abort()
}

func (r *remote) Size() int64     { return r.size }
func (r *remote) Version() string { return r.version }
func (r *remote) SHA256() string  { return r.digest }

// Reopen implements Object.
func (r *remote) Reopen(ctx context.Context) (Object, error) {
	return &remote{ctx: ctx, name: r.name, src: r.src, size: r.size, version: r.version, digest: r.digest, opener: r.opener}, nil
}

// ReadAt implements io.ReaderAt.
func (r *remote) ReadAt(p []byte, off int64) (n int, err error) { return r.readAt(p, off, 0) }

// Section returns a reader for sequential reads up to limit. It requests the entire rest at once, and nothing after limit.
func (r *remote) Section(limit int64) io.ReaderAt { return section{r, limit} }

type section struct {
	*remote
	limit int64
}

// ReadAt implements io.ReaderAt.
func (s section) ReadAt(p []byte, off int64) (n int, err error) { return s.readAt(p, off, s.limit) }

func (r *remote) readAt(p []byte, off, limit int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("%s: read at %d", r.name, off)
	}
	if off >= r.size {
		return 0, io.EOF
	}
	short := int64(len(p)) > r.size-off
	if short {
		p = p[:r.size-off]
	}
	err = r.opener.Reads.do(r.ctx, func(ctx context.Context) error {
		for n < len(p) {
			k, err := r.read(ctx, p[n:], off+int64(n), limit)
			n += k
			if err != nil {
				r.logRetry(err)
				return err
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return n, fmt.Errorf("%s: read at %d: %w", r.name, off+int64(n), err)
	case short:
		return n, io.EOF
	}
	return n, nil
}

// tellEvery is the shortest time between two log lines about a server that does not respond.
const tellEvery = 30 * time.Second

// logRetry logs that a read failed and is retried.
func (r *remote) logRetry(err error) {
	r.mu.Lock()
	again := !r.dropped && time.Since(r.logged) > tellEvery
	if again {
		r.logged = time.Now()
	}
	r.mu.Unlock()
	if again && transient(err) {
		r.opener.Log.Warn("a read failed; retrying", "what", r.name, "error", err)
	}
}

// read reads some bytes at off. It uses an open stream that will reach off, if there is one.
func (r *remote) read(ctx context.Context, p []byte, off, limit int64) (int, error) {
	s, err := r.take(ctx, off, int64(len(p)), limit)
	if err != nil {
		return 0, err
	}
	n, err := s.read(p, off)
	if err != nil {
		s.abort()
		return n, err
	}
	r.give(s)
	return n, nil
}

// read skips to off and fills p with as many bytes as the stream has.
func (s *stream) read(p []byte, off int64) (n int, err error) {
	s.guard.moved()
	defer s.guard.pause()
	from := &movingReader{s.body, s.guard, s.meter}
	gap, err := io.CopyN(io.Discard, from, off-s.off)
	s.off += gap
	if err == nil {
		n, err = io.ReadFull(from, p[:min(int64(len(p)), s.end-s.off)])
		s.off += int64(n)
	}
	return n, s.guard.explain(err)
}

// movingReader reports each byte that arrives to a guard, and its duration to a meter.
type movingReader struct {
	io.Reader
	guard *guard
	meter *transfer.Meter
}

func (m *movingReader) Read(p []byte) (int, error) {
	begin := time.Now()
	n, err := m.Reader.Read(p)
	if n > 0 {
		m.guard.moved()
	}
	if err != nil {
		return n, err
	}
	return n, m.meter.Add(n, time.Since(begin))
}

// take finds the open stream that is nearest before off, or opens one: up to limit, or for one window if limit is 0.
func (r *remote) take(ctx context.Context, off, n, limit int64) (*stream, error) {
	window := int64(firstWindow)
	r.mu.Lock()
	if r.dropped {
		r.mu.Unlock()
		return nil, errors.New("the object is closed")
	}
	best := -1
	for i, s := range r.idle {
		past := s.off <= off && off-s.off <= maxGap && off < s.end || off == s.off // the second case also at the end
		if past && (best < 0 || s.off > r.idle[best].off) {
			best = i
		}
	}
	if best >= 0 {
		s := r.idle[best]
		r.idle = slices.Delete(r.idle, best, best+1)
		if s.body != nil {
			r.mu.Unlock()
			return s, nil
		}
		window = min(2*s.window, maxWindow) // the reader used the whole last window
	}
	r.mu.Unlock()
	end := min(r.size, max(limit, off+n))
	if limit == 0 {
		end = min(r.size, off+max(window, n))
	}
	g := newGuard(ctx, r.opener.Stall)
	body, err := r.src.open(g, off, end-off)
	if err != nil {
		err = g.explain(err)
		g.end()
		return nil, err
	}
	return &stream{body: body, guard: g, meter: r.opener.Pace.NewMeter(), off: off, end: end, window: window}, nil
}

// give keeps a stream for the next read. It closes the least recently used stream if there are too many.
func (r *remote) give(s *stream) {
	if s.off == s.end {
		s.finish()
	}
	r.mu.Lock()
	r.idle = append(r.idle, s)
	drop := max(0, len(r.idle)-maxStreams)
	if r.dropped {
		drop = len(r.idle)
	}
	dropped := slices.Clone(r.idle[:drop])
	r.idle = slices.Delete(r.idle, 0, drop)
	r.mu.Unlock()
	for _, s := range dropped {
		s.finish()
	}
}

// Close ends all transfers.
func (r *remote) Close() error {
	r.mu.Lock()
	idle := r.idle
	r.idle, r.dropped = nil, true
	r.mu.Unlock()
	for _, s := range idle {
		s.finish()
	}
	return nil
}
