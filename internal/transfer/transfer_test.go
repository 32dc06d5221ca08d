package transfer_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/transfer"
)

// get reads a server's response within bounds.
func get(t *testing.T, b transfer.Bounds, answer http.HandlerFunc) ([]byte, error) {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	// A client with its own CheckRedirect, such as go-containerregistry's, is not bounded.
	client := &http.Client{Transport: b.Over(nil), CheckRedirect: func(*http.Request, []*http.Request) error { return nil }}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/v2/a/manifests/1", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

func flush(w http.ResponseWriter, text string) {
	_, _ = io.WriteString(w, text)
	_ = http.NewResponseController(w).Flush()
}

// drip sends one byte at a time until the client has gone.
func drip(pause time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			flush(w, ".")
			time.Sleep(pause)
		}
	}
}

func TestShownLocationsHaveNoPassword(t *testing.T) {
	for location, want := range map[string]string{
		"https://user:secret@a.example/x?region=eu": "https://user:xxxxx@a.example/x?region=eu",
		"https://a.example/x":                       "https://a.example/x",
		"s3://bucket/prefix":                        "s3://bucket/prefix",
		"/srv/a b%":                                 "/srv/a b%",
	} {
		if got := transfer.Shown(location); got != want {
			t.Errorf("%s is shown as %s, want %s", location, got, want)
		}
	}
}

func TestTextsHaveNoPasswords(t *testing.T) {
	for text, want := range map[string]string{
		"open https://me:secret@host/a: no such file":               "open https://me:xxxxx@host/a: no such file",
		`get "http://me:s@cret@host:80": EOF, then ftp://a:b@c`:     `get "http://me:xxxxx@host:80": EOF, then ftp://a:xxxxx@c`,
		"https://me@host, https://host:443/a:b@c":                   "https://me@host, https://host:443/a:b@c",
		"oci://127.0.0.1:5000/p/x@sha256:00, docker://h/x:1@y :// ": "oci://127.0.0.1:5000/p/x@sha256:00, docker://h/x:1@y :// ",
		"": "",
	} {
		if got := transfer.WithoutPasswords(text); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func TestRedirectLoopEnds(t *testing.T) {
	for name, next := range map[string]func(*http.Request) string{
		"to itself": func(r *http.Request) string { return r.URL.Path },
		"on and on": func(r *http.Request) string { return r.URL.Path + "0" },
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			_, err := get(t, transfer.Bounds{}, func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				http.Redirect(w, r, next(r), http.StatusTemporaryRedirect)
			})
			if err == nil || !strings.Contains(err.Error(), "stopped after 10 redirects") || asked.Load() != transfer.MaxRedirects {
				t.Errorf("after %d requests: %v", asked.Load(), err)
			}
		})
	}
}

func TestRedirectsAreFollowed(t *testing.T) {
	var asked atomic.Int32
	got, err := get(t, transfer.Bounds{}, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) < transfer.MaxRedirects {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
			return
		}
		flush(w, "there")
	})
	if err != nil || string(got) != "there" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestSlowBodyEnds(t *testing.T) {
	fast := transfer.Pace{Floor: 1000, Window: 100 * time.Millisecond}
	for name, row := range map[string]struct {
		bounds transfer.Bounds
		answer http.HandlerFunc
		want   error
	}{
		"a body that drips":  {transfer.Bounds{Pace: fast}, drip(5 * time.Millisecond), transfer.ErrSlow},
		"a body that stalls": {transfer.Bounds{Stall: 50 * time.Millisecond}, drip(time.Second), transfer.ErrStalled},
		"a slow body that keeps the floor": {transfer.Bounds{Pace: fast}, func(w http.ResponseWriter, _ *http.Request) {
			for range 40 {
				flush(w, strings.Repeat(".", 500))
				time.Sleep(10 * time.Millisecond)
			}
		}, nil},
		"a small body": {transfer.Bounds{Pace: fast}, func(w http.ResponseWriter, _ *http.Request) { flush(w, ".") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := get(t, row.bounds, row.answer); !errors.Is(err, row.want) {
				t.Errorf("got %v, want %v", err, row.want)
			}
		})
	}
}

func TestPauseOfReaderDoesNotCount(t *testing.T) {
	m := transfer.Pace{Floor: 10, Window: time.Second}.NewMeter()
	for range 100 { // however long the caller pauses between reads
		if err := m.Add(1, time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Add(1, time.Second); err != nil { // 101 bytes
		t.Error(err)
	}
	if err := m.Add(1, time.Second); !errors.Is(err, transfer.ErrSlow) {
		t.Errorf("got %v", err)
	}
}

func TestEndlessDocumentIsTruncated(t *testing.T) {
	const most = 4 << 20
	for name, size := range map[string]int64{"announced": 300 << 20, "not announced": -1} {
		t.Run(name, func(t *testing.T) {
			got, err := get(t, transfer.Bounds{Limit: transfer.RegistryLimit}, func(w http.ResponseWriter, r *http.Request) {
				if size > 0 {
					w.Header().Set("Content-Length", "314572800")
				}
				for r.Context().Err() == nil {
					if _, err := io.WriteString(w, strings.Repeat(" ", 1<<20)); err != nil {
						return
					}
				}
			})
			if err == nil || !strings.Contains(err.Error(), "at most 4194304 are supported") || len(got) > most+1 {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
}

func TestBlobsHaveNoLimit(t *testing.T) {
	blob, err := http.NewRequest(http.MethodGet, "http://example.org/v2/a/blobs/sha256:1", nil)
	if err != nil {
		t.Fatal(err)
	}
	moved, err := http.NewRequest(http.MethodGet, "http://example.org/bucket/1", nil)
	if err != nil {
		t.Fatal(err)
	}
	moved.Response = &http.Response{Request: blob}
	if transfer.RegistryLimit(blob) != 0 || transfer.RegistryLimit(moved) != 0 {
		t.Error("blobs are limited like manifests")
	}
}

func TestRetryAfterIsParsed(t *testing.T) {
	for name, row := range map[string]struct {
		status   int
		value    string
		min, max time.Duration
	}{
		"seconds":                {http.StatusTooManyRequests, "7", 7 * time.Second, 7 * time.Second},
		"a date":                 {http.StatusServiceUnavailable, time.Now().Add(30 * time.Second).UTC().Format(http.TimeFormat), 28 * time.Second, 30 * time.Second},
		"longer than is waited":  {http.StatusServiceUnavailable, "86400", transfer.MaxPause, transfer.MaxPause},
		"a date that has passed": {http.StatusServiceUnavailable, "Mon, 01 Jan 2001 00:00:00 GMT", time.Second, time.Second},
		"no pause":               {http.StatusServiceUnavailable, "", time.Second, time.Second},
		"nonsense":               {http.StatusServiceUnavailable, "soon", time.Second, time.Second},
		"less than nothing":      {http.StatusServiceUnavailable, "-5", time.Second, time.Second},
		"not a refusal":          {http.StatusOK, "7", time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, p := transfer.WithPause(t.Context())
			transfer.NotePause(ctx, &http.Response{StatusCode: row.status, Header: http.Header{"Retry-After": {row.value}}})
			if got := p.AtLeast(time.Second); got < row.min || got > row.max {
				t.Errorf("waits %s, want %s to %s", got, row.min, row.max)
			}
		})
	}
}

func TestPlusIsEscapedOnce(t *testing.T) {
	for in, want := range map[string]string{
		"http://a/b-1.0+up4.5.tgz":        "http://a/b-1.0%2Bup4.5.tgz",
		"http://a/b-1.0%2Bup4.5.tgz":      "http://a/b-1.0%2Bup4.5.tgz",
		"http://a/b%20c+d?x=1+2":          "http://a/b%20c%2Bd?x=1+2",
		"http://a/plain":                  "http://a/plain",
		"http://a/%7Eb%2Fc+d":             "http://a/%7Eb%2Fc%2Bd",
		"http://user:p+w@a/libstdc++.deb": "http://user:p+w@a/libstdc%2B%2B.deb",
	} {
		u, err := url.Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := transfer.EscapePlus(u).String(); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
}

func TestReadsEndWithTheirContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	r := transfer.ContextReader(ctx, strings.NewReader("ab"))
	if n, err := r.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	cause := errors.New("enough")
	cancel(cause)
	if rest, err := io.ReadAll(r); len(rest) > 0 || !errors.Is(err, cause) {
		t.Errorf("%q, %v", rest, err)
	}
}
