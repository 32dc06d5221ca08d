package asset_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sealift/sealift/builder/asset"
	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/mirror"
	"github.com/sealift/sealift/internal/trust"
	"github.com/sealift/sealift/manifest/repository"
)

// origin is a file server with configurable responses that records its requests.
type origin struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string // request targets as they were sent
	answer   http.HandlerFunc
}

func newOrigin(t *testing.T, answer http.HandlerFunc) *origin {
	t.Helper()
	o := &origin{answer: answer}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		o.requests = append(o.requests, r.RequestURI)
		answer := o.answer
		o.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(o.Close)
	return o
}

func content(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) }
}

// tagged serves content under an ETag and honours If-None-Match.
func tagged(s, etag string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", etag)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(s))
	}
}

func openCache(t *testing.T) *cache.Cache {
	t.Helper()
	c, err := cache.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sourceTo is a source that finds https://files.example.com/ at an origin.
func sourceTo(t *testing.T, c *cache.Cache, o *origin) *asset.Source {
	t.Helper()
	mirrors, err := mirror.New(map[string]string{"https://files.example.com/": o.URL + "/files/"})
	if err != nil {
		t.Fatal(err)
	}
	fetcher := fetch.New(c, fetch.Retry{Attempts: 2, Wait: time.Millisecond}, nil)
	return asset.NewSource(asset.Options{Cache: c, Fetcher: fetcher, Mirrors: mirrors})
}

func packed(t *testing.T, r asset.Resolved, c *cache.Cache) string {
	t.Helper()
	f := r.Pack("assets", c)
	if f.Path != "assets/"+r.Name || f.Mode != 0o644 {
		t.Errorf("packed as %s with mode %o", f.Path, f.Mode)
	}
	body, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil || int64(len(data)) != f.Size {
		t.Errorf("packed %d bytes, %v; promised %d", len(data), err, f.Size)
	}
	return string(data)
}

func TestURLIsRequestedFromMirrorUnchanged(t *testing.T) {
	o, c := newOrigin(t, content("binary")), openCache(t)
	const source = "https://files.example.com/kustomize%2Fv5.4.3/k.tar.gz?a=%20b"
	r, err := sourceTo(t, c, o).Resolve(t.Context(), nil, "k", source)
	if err != nil {
		t.Fatal(err)
	}
	if got := packed(t, r, c); got != "binary" || r.Source != source {
		t.Errorf("got %q from %s", got, r.Source)
	}
	if want := "/files/kustomize%2Fv5.4.3/k.tar.gz?a=%20b"; o.requests[0] != want {
		t.Errorf("asked for %s, want %s", o.requests[0], want)
	}
}

func TestOtherSchemesAreErrorsWithoutFiles(t *testing.T) {
	o, c := newOrigin(t, content("binary")), openCache(t)
	_, err := sourceTo(t, c, o).Resolve(t.Context(), nil, "a", "s3://bucket/a")
	var typed *asset.Error
	if !errors.As(err, &typed) || !strings.Contains(err.Error(), "s3://bucket/a: not a URL with https:// or http://") {
		t.Errorf("got %v", err)
	}
}

func TestErrorsOmitMirrorPassword(t *testing.T) {
	o, c := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/gone" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		http.Redirect(w, r, "file:///etc/passwd?sig=anchor", http.StatusFound)
	}), openCache(t)
	mirrors, err := mirror.New(map[string]string{"https://files.example.com/": strings.Replace(o.URL, "://", "://ship:anchor@", 1)})
	if err != nil {
		t.Fatal(err)
	}
	s := asset.NewSource(asset.Options{Cache: c, Fetcher: fetch.New(c, fetch.Retry{}, nil), Mirrors: mirrors, Client: fetch.Client{Transport: fetch.NewTransport(trust.CAs{})}})
	for _, file := range []string{"gone", "moved"} {
		_, err := s.Resolve(t.Context(), nil, "a", "https://files.example.com/"+file)
		if err == nil || strings.Contains(err.Error(), "anchor") || !strings.Contains(err.Error(), "mirror http://ship:") {
			t.Errorf("%v", err)
		}
	}
}

func TestCompressedContentStaysCompressed(t *testing.T) {
	o, c := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "" {
			t.Errorf("asked for encoding %q", r.Header.Get("Accept-Encoding"))
		}
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, "\x1f\x8bnot really")
	}), openCache(t)
	mirrors, err := mirror.New(map[string]string{"https://files.example.com/": o.URL})
	if err != nil {
		t.Fatal(err)
	}
	s := asset.NewSource(asset.Options{Cache: c, Fetcher: fetch.New(c, fetch.Retry{}, nil), Mirrors: mirrors, Client: fetch.Client{Transport: fetch.NewTransport(trust.CAs{})}})
	r, err := s.Resolve(t.Context(), nil, "a.tgz", "https://files.example.com/a.tgz")
	if err != nil || packed(t, r, c) != "\x1f\x8bnot really" {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestUnchangedURLIsNotRefetched(t *testing.T) {
	c := openCache(t)
	o := newOrigin(t, tagged("first", `"1"`))
	resolve := func() asset.Resolved {
		t.Helper()
		r, err := sourceTo(t, c, o).Resolve(t.Context(), nil, "a", "https://files.example.com/a")
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := resolve(); r.Fetched != 5 || packed(t, r, c) != "first" {
		t.Errorf("at first: %+v", r)
	}
	if r := resolve(); r.Fetched != 0 || packed(t, r, c) != "first" {
		t.Errorf("unchanged: %+v", r)
	}
	o.answer = tagged("second", `"2"`)
	changed := resolve()
	if changed.Fetched != 6 || packed(t, changed, c) != "second" {
		t.Errorf("changed: %+v", changed)
	}
	if err := os.Remove(c.Path(changed.SHA256)); err != nil {
		t.Fatal(err)
	}
	if r := resolve(); r.Fetched != 6 || packed(t, r, c) != "second" {
		t.Errorf("unchanged but gone from the cache: %+v", r)
	}
}

func TestUnusableURLIsRefused(t *testing.T) {
	tests := map[string]struct {
		answer     http.HandlerFunc
		want, hint string
	}{
		"404":                                 {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, "404 Not Found", "check the URL"},
		"403":                                 {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, "403 Forbidden", "check the URL"},
		"500 to the end":                      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, "500 Internal Server Error", "check the network"},
		"204":                                 {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, "204 No Content", ""},
		"304 to a question without condition": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) }, "304 Not Modified", ""},
		"redirects without end":               {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path+"x", http.StatusFound) }, "stopped after 10 redirects", ""},
		"a body that is always cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "half")
		}, "unexpected EOF", "check the network"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o, c := newOrigin(t, test.answer), openCache(t)
			_, err := sourceTo(t, c, o).Resolve(t.Context(), nil, "a", "https://files.example.com/a")
			var typed *asset.Error
			if !errors.As(err, &typed) || !strings.Contains(err.Error(), test.want) || !strings.Contains(typed.Hint(), test.hint) {
				t.Fatalf("got %v (%s), want %q", err, typed.Hint(), test.want)
			}
			if want := "asset https://files.example.com/a (mirror " + o.URL + "/files/a)"; !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got %v, want it to start with %q", err, want)
			}
		})
	}
}

func TestRecoveredServerIsRetried(t *testing.T) {
	first := true
	o, c := newOrigin(t, nil), openCache(t)
	o.answer = func(w http.ResponseWriter, _ *http.Request) {
		if first {
			first = false
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(2))
		_, _ = io.WriteString(w, "ok")
	}
	r, err := sourceTo(t, c, o).Resolve(t.Context(), nil, "a", "https://files.example.com/a")
	if err != nil || packed(t, r, c) != "ok" {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestPaths(t *testing.T) {
	c := openCache(t)
	dir := t.TempDir()
	addon := filepath.Join(dir, "addon")
	r, err := repository.At(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	open := func(name string) (*os.File, error) {
		below, err := r.Name(addon, name)
		if err != nil {
			return nil, err
		}
		return r.Open(below)
	}
	if err := os.MkdirAll(filepath.Join(addon, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"addon/inside", "outside"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(addon, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ source, content, fault string }{
		"is relative to the Manifest's directory": {"inside", "addon/inside", ""},
		"may lead out of it":                      {"../outside", "outside", ""},
		"must not be absolute":                    {filepath.Join(dir, "outside"), "", "outside the repository"},
		"must not lead out of the repository":     {"../../secret", "", "outside the repository"},
		"must exist":                              {"none", "", "no such file"},
		"must not be a folder":                    {"folder", "", "not a regular file"},
		"must not be a pipe":                      {"pipe", "", "not a regular file"},
		"is not a URL of another kind":            {"ftp://example.com/a", "", "no such file"},
	}
	source := asset.NewSource(asset.Options{Cache: c, Fetcher: fetch.New(c, fetch.Retry{}, nil)})
	for name, test := range tests {
		t.Run("a path "+name, func(t *testing.T) {
			r, err := source.Resolve(t.Context(), open, "a", test.source)
			if test.fault != "" {
				if err == nil || !strings.Contains(err.Error(), test.fault) {
					t.Errorf("got %v, want %q", err, test.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := packed(t, r, c); got != test.content {
				t.Errorf("got %q, want %q", got, test.content)
			}
		})
	}
}
