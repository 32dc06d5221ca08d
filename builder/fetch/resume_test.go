package fetch_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/fetch"
)

// origin serves one file like Go's file server, cuts connections and records its requests.
type origin struct {
	*httptest.Server
	mu       sync.Mutex
	data     []byte
	etag     string
	modified time.Time
	noRanges bool  // ignores Range, as servers may
	lies     bool  // answers a range with another one
	cutAfter int64 // bytes of each body; 0 means not to cut
	uneven   bool  // cuts every second body 3 MiB later
	requests []string
	sent     int64
}

func newOrigin(t *testing.T, size int) *origin {
	t.Helper()
	o := &origin{data: make([]byte, size), modified: time.Now().Add(-time.Hour)}
	_, _ = rand.NewChaCha8([32]byte{1}).Read(o.data)
	o.Server = httptest.NewServer(o)
	t.Cleanup(o.Close)
	return o
}

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests = append(o.requests, strings.TrimSpace(r.Header.Get("Range")+" "+r.Header.Get("If-Range")))
	if o.noRanges {
		r.Header.Del("Range")
	}
	if o.etag != "" {
		w.Header().Set("ETag", o.etag)
	}
	if o.lies && r.Header.Get("Range") != "" {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", len(o.data)-1, len(o.data)))
		w.WriteHeader(http.StatusPartialContent)
		return
	}
	left := o.cutAfter
	if o.uneven && len(o.requests)%2 == 1 {
		left += 3 << 20
	}
	http.ServeContent(&cutting{ResponseWriter: w, origin: o, left: left}, r, "", o.modified, bytes.NewReader(o.data))
}

// cutting ends the connection in the middle of a body.
type cutting struct {
	http.ResponseWriter
	origin *origin
	left   int64
}

func (c *cutting) Write(p []byte) (int, error) {
	if c.origin.cutAfter > 0 {
		if int64(len(p)) > c.left {
			p = p[:c.left]
		}
		c.left -= int64(len(p))
	}
	n, err := c.ResponseWriter.Write(p)
	c.origin.sent += int64(n)
	if c.origin.cutAfter > 0 && c.left == 0 {
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, err
}

func (o *origin) set(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
}

// seen counts the requests to the origin and the bytes that it sent. It waits for the answer that is being given.
func (o *origin) seen() (asked string, requests int, sent int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.requests, ", "), len(o.requests), o.sent
}

func (o *origin) digest() string {
	sum := sha256.Sum256(o.data)
	return hex.EncodeToString(sum[:])
}

// blob is the origin's file: by its digest if it is pinned, by its URL alone otherwise.
func (o *origin) blob(pinned bool) fetch.Blob {
	b := fetch.Blob{Name: "blob", From: func(context.Context) (fetch.Location, error) { return fetch.Location{URL: o.URL}, nil }}
	if pinned {
		b.SHA256, b.Size = o.digest(), int64(len(o.data))
	}
	return b
}

// interrupted fetches until the origin cuts the connection, once.
func interrupted(t *testing.T, c *cache.Cache, o *origin, b fetch.Blob, after int64) {
	t.Helper()
	o.set(func() { o.cutAfter = after })
	if _, err := fetch.Into(c).Fetch(t.Context(), b); err == nil || !fetch.Transient(err) {
		t.Fatalf("got %v, want a transient error", err)
	}
	o.set(func() { o.cutAfter, o.requests, o.sent = 0, nil, 0 })
}

const size = 300_000

func TestCutTransferIsResumed(t *testing.T) {
	tests := map[string]struct {
		pinned bool
		change func(o *origin) // before the first request
		asked  string
	}{
		"by its digest": {true, nil, "bytes=100000-299999"},
		"by its digest, whatever the server calls it": {true, func(o *origin) { o.etag = `W/"weak"` }, "bytes=100000-299999"},
		"by its ETag": {false, func(o *origin) { o.etag = `"one"` }, `bytes=100000-299999 "one"`},
		"by its date, when that is well in the past":         {false, nil, "bytes=100000-299999 <date>"},
		"not by a date that may come again":                  {false, func(o *origin) { o.modified = time.Now() }, ""},
		"not by a weak ETag, but by the date":                {false, func(o *origin) { o.etag = `W/"weak"` }, "bytes=100000-299999 <date>"},
		"not by nothing":                                     {false, func(o *origin) { o.modified = time.Time{} }, ""},
		"not by an ETag that is weak and a date of just now": {false, func(o *origin) { o.etag, o.modified = `W/"weak"`, time.Now() }, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c, o := openCache(t), newOrigin(t, size)
			if test.change != nil {
				test.change(o)
			}
			interrupted(t, c, o, o.blob(test.pinned), 100_000)
			stored, err := fetch.Into(c).Fetch(t.Context(), o.blob(test.pinned))
			if err != nil || stored.SHA256 != o.digest() || stored.Size != size {
				t.Fatalf("Fetch = %+v, %v", stored, err)
			}
			want := strings.ReplaceAll(test.asked, "<date>", o.modified.UTC().Format(http.TimeFormat))
			asked, _, sent := o.seen()
			if asked != want {
				t.Errorf("asked for %q, want %q", asked, want)
			}
			if stored.Transferred != sent || want != "" && sent != 200_000 {
				t.Errorf("%d bytes were sent, %d said to be transferred", sent, stored.Transferred)
			}
		})
	}
}

func TestResumedTransferDoesNotMixVersions(t *testing.T) {
	tests := map[string]struct {
		pinned bool
		first  func(o *origin)
		then   func(t *testing.T, c *cache.Cache, o *origin)
	}{
		"a file that changed meanwhile, under an ETag": {false, func(o *origin) { o.etag = `"one"` },
			func(_ *testing.T, _ *cache.Cache, o *origin) { o.data[1]++; o.etag = `"two"` }},
		"a file that changed meanwhile, by its date": {false, nil,
			func(_ *testing.T, _ *cache.Cache, o *origin) { o.data[1]++; o.modified = o.modified.Add(time.Minute) }},
		"a file that became shorter than what arrived": {false, func(o *origin) { o.etag = `"one"` },
			func(_ *testing.T, _ *cache.Cache, o *origin) { o.data, o.etag = o.data[:50_000], `"two"` }},
		"a server that ignores ranges": {true, nil,
			func(_ *testing.T, _ *cache.Cache, o *origin) { o.noRanges = true }},
		"a first part that is damaged": {true, nil, func(t *testing.T, c *cache.Cache, _ *origin) { damagePartial(t, c, 1) }},
		"a first part that is too long": {true, nil, func(t *testing.T, c *cache.Cache, _ *origin) {
			damagePartial(t, c, size+1)
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c, o := openCache(t), newOrigin(t, size)
			if test.first != nil {
				test.first(o)
			}
			interrupted(t, c, o, o.blob(test.pinned), 100_000)
			test.then(t, c, o)
			stored, err := fetch.New(c, quick, nil).Fetch(t.Context(), o.blob(test.pinned))
			if err != nil || stored.SHA256 != o.digest() {
				t.Fatalf("Fetch = %+v, %v", stored, err)
			}
			if err := c.Verify(stored.SHA256); err != nil {
				t.Error(err)
			}
		})
	}
}

// damagePartial changes the byte at an offset of the only partial, or appends it.
func damagePartial(t *testing.T, c *cache.Cache, offset int64) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(c.Dir(), "partial", "*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("partials are %v, %v", found, err)
	}
	f, err := os.OpenFile(found[0], os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("x"), offset); err != nil {
		t.Fatal(err)
	}
}

func TestWrongRangeIsRefused(t *testing.T) {
	c, o := openCache(t), newOrigin(t, size)
	interrupted(t, c, o, o.blob(true), 100_000)
	o.set(func() { o.lies = true })
	stored, err := fetch.New(c, quick, nil).Fetch(t.Context(), o.blob(true))
	if err != nil || stored.SHA256 != o.digest() {
		t.Fatalf("Fetch = %+v, %v", stored, err)
	}
	if asked, _, _ := o.seen(); asked != "bytes=100000-299999, " {
		t.Errorf("asked for %q, want the rest and then all of it", asked)
	}
}

func TestLargeBlobArrivesOverFailingConnections(t *testing.T) {
	const large = 12 << 20
	c, o := openCache(t), newOrigin(t, large)
	o.cutAfter = 3 << 19 // 1.5 MiB: far more cuts than attempts
	stored, err := fetch.New(c, fetch.Retry{Attempts: 2, Wait: time.Millisecond}, nil).Fetch(t.Context(), o.blob(true))
	if err != nil || stored.SHA256 != o.digest() {
		t.Fatalf("Fetch = %+v, %v", stored, err)
	}
	if _, _, sent := o.seen(); sent != large {
		t.Errorf("%d bytes were sent for a blob of %d", sent, large)
	}
}

func TestServerWithoutRangesIsAbandonedOnFailingConnections(t *testing.T) {
	for name, uneven := range map[string]bool{"cut at one place": false, "cut at two places in turn": true} {
		t.Run(name, func(t *testing.T) {
			c, o := openCache(t), newOrigin(t, 12<<20)
			o.cutAfter, o.noRanges, o.uneven = 3<<19, true, uneven
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := fetch.New(c, quick, nil).Fetch(ctx, o.blob(true))
			if _, requests, _ := o.seen(); err == nil || requests > quick.Attempts+1 {
				t.Errorf("got %v after %d requests", err, requests)
			}
		})
	}
}

func TestKnownURLIsNotTransferred(t *testing.T) {
	c, o := openCache(t), newOrigin(t, size)
	o.etag = `"one"`
	b := o.blob(false)
	known := fetch.Version{}
	b.From = func(context.Context) (fetch.Location, error) {
		return fetch.Location{URL: o.URL, Known: func() fetch.Version { return known }}, nil
	}
	stored, err := fetch.Into(c).Fetch(t.Context(), b)
	if err != nil || stored.Version.ETag != o.etag {
		t.Fatalf("Fetch = %+v, %v", stored, err)
	}
	known = stored.Version
	if _, err := fetch.Into(c).Fetch(t.Context(), b); !errors.Is(err, fetch.ErrUnchanged) {
		t.Errorf("got %v, want ErrUnchanged", err)
	}
}

func TestDigestIsTransferredOnceBySeveralProcesses(t *testing.T) {
	// Each open cache has its own locks, as a process has.
	dir := t.TempDir()
	o := newOrigin(t, 4<<20)
	results := make(chan error, 4)
	for range cap(results) {
		c, err := cache.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, err := fetch.New(c, quick, nil).Fetch(t.Context(), o.blob(true))
			results <- err
		}()
	}
	for range cap(results) {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if _, requests, sent := o.seen(); requests != 1 || sent != 4<<20 {
		t.Errorf("%d requests for %d bytes in all", requests, sent)
	}
}

func TestRecentDateIsNotCached(t *testing.T) {
	c, o := openCache(t), newOrigin(t, size)
	o.modified = time.Now()
	stored, err := fetch.Into(c).Fetch(t.Context(), o.blob(false))
	if err != nil || stored.Version != (fetch.Version{}) {
		t.Errorf("Fetch = %+v, %v; want no version, since the next change may have the same date", stored, err)
	}
}
