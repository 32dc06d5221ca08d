// Package transfer bounds what a web server can make its client do: follow redirect loops, wait for a body that stalls or
// drips, and read an endless document. ContextReader ends reads with a context.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// MaxRedirects is the maximum number of redirects that are followed for one request.
const MaxRedirects = 10

// ErrStalled reports that a transfer made no progress for too long.
var ErrStalled = errors.New("no data arrived for too long")

// ErrSlow reports that a transfer makes so little progress that it might not end.
var ErrSlow = errors.New("data arrives too slowly")

// Pace is the least speed of a transfer. Only time counts in which the receiver waits.
type Pace struct {
	Floor  int64         // bytes within Window; 0 means 64 KiB, less than 0 means no floor
	Window time.Duration // 0 means five minutes
}

// Meter measures one transfer. It is not for several goroutines at once.
type Meter struct {
	pace   Pace
	bytes  int64
	waited time.Duration
}

// NewMeter returns the meter of a transfer that begins.
func (p Pace) NewMeter() *Meter {
	if p.Floor == 0 {
		p.Floor = 64 << 10
	}
	if p.Window <= 0 {
		p.Window = 5 * time.Minute
	}
	return &Meter{pace: p}
}

// Add counts bytes that took some time to arrive. It fails with ErrSlow at the end of a window with too few of them.
func (m *Meter) Add(bytes int, waited time.Duration) error {
	m.bytes += int64(bytes)
	if m.waited += waited; m.waited < m.pace.Window {
		return nil
	}
	if m.bytes < m.pace.Floor {
		return fmt.Errorf("%w: %d bytes in %s", ErrSlow, m.bytes, m.waited.Round(time.Millisecond))
	}
	m.bytes, m.waited = 0, 0
	return nil
}

// Bounds limits the transfers of a client.
type Bounds struct {
	// Stall is the longest time without data in a body. 0 means one minute.
	Stall time.Duration
	Pace  Pace
	// Limit returns the most bytes of the body that answers a request. 0 means no limit. nil limits nothing.
	Limit func(*http.Request) int64
}

// maxDocument is the maximum size of a response of a registry that is not a blob, in bytes: the 4 MiB for a
// manifest that the distribution specification asks registries to accept.
const maxDocument = 4 << 20

// RegistryLimit is the Limit of clients of registries: everything but blobs, whose size is in their manifest.
func RegistryLimit(r *http.Request) int64 {
	if strings.Contains(r.URL.Path, "/blobs/") {
		return 0
	}
	for asked := r.Response; asked != nil && asked.Request != nil; asked = asked.Request.Response {
		if strings.Contains(asked.Request.URL.Path, "/blobs/") { // which redirects to the blobs
			return 0
		}
	}
	return maxDocument
}

// Over returns a transport that keeps the bounds for the requests that next sends.
func (b Bounds) Over(next http.RoundTripper) http.RoundTripper {
	if b.Stall <= 0 {
		b.Stall = time.Minute
	}
	if next == nil {
		next = http.DefaultTransport
	}
	return &bounded{Bounds: b, next: next}
}

type bounded struct {
	Bounds
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper. A client says by Response which answer redirected it.
func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	n := 0
	for from := r.Response; from != nil && from.Request != nil; from = from.Request.Response {
		if n++; n >= MaxRedirects {
			return nil, fmt.Errorf("stopped after %d redirects", MaxRedirects)
		}
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	answer, err := b.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	NotePause(ctx, answer)
	guarded := &body{ReadCloser: answer.Body, cancel: cancel, stall: b.Stall, meter: b.Pace.NewMeter()}
	if b.Limit != nil {
		guarded.limit = b.Limit(r)
	}
	if guarded.limit > 0 && answer.ContentLength > guarded.limit && r.Method != http.MethodHead {
		return nil, errors.Join(guarded.tooLarge(answer.ContentLength), guarded.Close())
	}
	guarded.timer = time.AfterFunc(b.Stall, func() {
		guarded.stalled.Store(true)
		cancel(ErrStalled)
	})
	answer.Body, answer.Request = guarded, r
	return answer, nil
}

// CloseIdleConnections implements an optional interface of http.Client.
func (b *bounded) CloseIdleConnections() {
	if next, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// Redacted returns a URL without its secrets: the password, and the query, which may sign a redirect to an object store.
func Redacted(u *url.URL) string {
	shown := *u
	shown.RawQuery = ""
	return shown.Redacted()
}

// Shown returns the location of something as people may see it: without the password, if it is a URL.
func Shown(location string) string {
	if u, err := url.Parse(location); err == nil && u.User != nil {
		return u.Redacted()
	}
	return location
}

// WithoutPasswords replaces the passwords of all URLs in a text for people.
func WithoutPasswords(text string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "://")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteString("://")
		end := strings.IndexAny(rest, "/?# \t\n\"'")
		if end < 0 {
			end = len(rest)
		}
		if at := strings.LastIndexByte(rest[:end], '@'); at >= 0 {
			if user, _, has := strings.Cut(rest[:at], ":"); has {
				out.WriteString(user + ":xxxxx")
				rest = rest[at:]
			}
		}
		text = rest
	}
}

// body aborts a request whose answer stalls, drips or does not end.
type body struct {
	io.ReadCloser
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	stall   time.Duration
	stalled atomic.Bool
	meter   *Meter
	limit   int64 // 0 means none
	read    int64
}

func (b *body) tooLarge(size int64) error {
	return fmt.Errorf("the answer has %d bytes or more, and at most %d are supported", size, b.limit)
}

func (b *body) Read(p []byte) (int, error) {
	if b.limit > 0 { // one byte over the limit is enough to refuse
		p = p[:min(int64(len(p)), max(b.limit+1-b.read, 0))]
	}
	begin := time.Now()
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.timer.Reset(b.stall)
	}
	b.read += int64(n)
	switch {
	case b.limit > 0 && b.read > b.limit:
		return n, b.tooLarge(b.read)
	case err != nil && !errors.Is(err, io.EOF) && b.stalled.Load():
		return n, fmt.Errorf("%w (%s)", ErrStalled, b.stall)
	case err != nil:
		return n, err
	}
	return n, b.meter.Add(n, time.Since(begin))
}

// Close implements io.Closer.
func (b *body) Close() error {
	if b.timer != nil {
		b.timer.Stop()
	}
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

// ContextReader returns a reader that fails with the cause of ctx once ctx has ended. It cannot interrupt a read that has begun: files do not support that.
func ContextReader(ctx context.Context, r io.Reader) io.Reader { return contextReader{ctx, r} }

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.r.Read(p)
}
