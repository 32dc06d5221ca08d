package fetch_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/internal/transfer"
)

const content = "the content of a blob, long enough to be cut in two"

func digestOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// quick is a retry that does not wait noticeably.
var quick = fetch.Retry{Attempts: 3, Wait: time.Millisecond}

func openCache(t *testing.T) *cache.Cache {
	t.Helper()
	c, err := cache.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// serve answers the nth request, counted from 1, with answer.
func serve(t *testing.T, answer func(n int, w http.ResponseWriter)) (address string, requests *atomic.Int32) {
	t.Helper()
	requests = new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer(int(requests.Add(1)), w)
	}))
	t.Cleanup(s.Close)
	return s.URL, requests
}

func blobAt(address string) fetch.Blob {
	return fetch.Blob{
		Name: "blob", SHA256: digestOf(content), Size: int64(len(content)),
		From: at(fetch.Location{URL: address}),
	}
}

func at(l fetch.Location) func(context.Context) (fetch.Location, error) {
	return func(context.Context) (fetch.Location, error) { return l, nil }
}

func send(w http.ResponseWriter, s string) { _, _ = io.WriteString(w, s) }

// cut announces more than it sends.
func cut(w http.ResponseWriter) {
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	send(w, content[:10])
}

func TestTransientFailuresAreRetried(t *testing.T) {
	tests := map[string]func(w http.ResponseWriter){
		"500":                   func(w http.ResponseWriter) { w.WriteHeader(500) },
		"503":                   func(w http.ResponseWriter) { w.WriteHeader(503) },
		"429":                   func(w http.ResponseWriter) { w.WriteHeader(429) },
		"a body that is cut":    cut,
		"a body that ends soon": func(w http.ResponseWriter) { w.(http.Flusher).Flush(); send(w, content[:10]) },
		"a connection that is cut": func(http.ResponseWriter) {
			panic(http.ErrAbortHandler)
		},
	}
	for name, fault := range tests {
		t.Run(name, func(t *testing.T) {
			c := openCache(t)
			address, requests := serve(t, func(n int, w http.ResponseWriter) {
				if n < 3 {
					fault(w)
					return
				}
				send(w, content)
			})
			stored, err := fetch.New(c, quick, nil).Fetch(t.Context(), blobAt(address))
			if err != nil || stored.SHA256 != digestOf(content) || stored.Cached {
				t.Fatalf("Fetch = %+v, %v", stored, err)
			}
			if n := requests.Load(); n != 3 {
				t.Errorf("%d requests, want 3", n)
			}
		})
	}
}

func TestBrokenHTTP2StreamIsTransient(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		cut(w)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	resp, err := fetch.Client{Transport: s.Client().Transport}.Get(t.Context(), s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); err == nil || resp.ProtoMajor != 2 || !fetch.Transient(err) {
		t.Errorf("over HTTP/%d got %v, want a transient error", resp.ProtoMajor, err)
	}
}

func TestAttemptsAreBounded(t *testing.T) {
	address, requests := serve(t, func(_ int, w http.ResponseWriter) { w.WriteHeader(503) })
	_, err := fetch.New(openCache(t), quick, nil).Fetch(t.Context(), blobAt(address))
	var status *fetch.StatusError
	if !errors.As(err, &status) || status.Code != 503 || !strings.Contains(err.Error(), "tried 3 times") {
		t.Errorf("got %v", err)
	}
	if n := requests.Load(); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
}

func TestPermanentFailuresAreNotRetried(t *testing.T) {
	flipped := "T" + content[1:]
	tests := map[string]struct {
		answer func(w http.ResponseWriter)
		want   error
	}{
		"404":              {func(w http.ResponseWriter) { w.WriteHeader(404) }, nil},
		"401":              {func(w http.ResponseWriter) { w.WriteHeader(401) }, nil},
		"a flipped byte":   {func(w http.ResponseWriter) { send(w, flipped) }, cache.ErrMismatch},
		"too much content": {func(w http.ResponseWriter) { send(w, content+"more") }, cache.ErrMismatch},
		"too much content that is not announced": {func(w http.ResponseWriter) {
			w.(http.Flusher).Flush()
			send(w, content+"more")
		}, cache.ErrMismatch},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := openCache(t)
			address, requests := serve(t, func(_ int, w http.ResponseWriter) { test.answer(w) })
			_, err := fetch.New(c, quick, nil).Fetch(t.Context(), blobAt(address))
			if err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if n := requests.Load(); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
			if _, ok := c.Stat(digestOf(content)); ok {
				t.Error("something was kept")
			}
		})
	}
}

func TestCachedBlobIsNotTransferred(t *testing.T) {
	c := openCache(t)
	address, requests := serve(t, func(_ int, w http.ResponseWriter) { send(w, content) })
	for _, cached := range []bool{false, true} {
		stored, err := fetch.New(c, quick, nil).Fetch(t.Context(), blobAt(address))
		if err != nil || stored.Cached != cached {
			t.Fatalf("Fetch = %+v, %v, want cached: %v", stored, err, cached)
		}
	}
	if n := requests.Load(); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

func TestConcurrentCallersShareOneTransfer(t *testing.T) {
	const callers = 8
	c := openCache(t)
	var waiting sync.WaitGroup
	waiting.Add(callers)
	address, requests := serve(t, func(_ int, w http.ResponseWriter) {
		waiting.Wait() // until all have asked
		send(w, content)
	})
	f := fetch.New(c, quick, nil)
	errs := make(chan error, callers)
	for range callers {
		go func() {
			waiting.Done()
			_, err := f.Fetch(t.Context(), blobAt(address))
			errs <- err
		}()
	}
	for range callers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n := requests.Load(); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

func TestCancelledCallerDoesNotFailOthers(t *testing.T) {
	c := openCache(t)
	arrived, release := make(chan struct{}), make(chan struct{})
	address, _ := serve(t, func(n int, w http.ResponseWriter) {
		if n == 1 {
			w.Header().Set("Content-Length", strconv.Itoa(len(content)))
			w.(http.Flusher).Flush()
			close(arrived)
			<-release
			return
		}
		send(w, content)
	})
	t.Cleanup(func() { close(release) })
	f := fetch.New(c, quick, nil)
	ctx, giveUp := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := f.Fetch(ctx, blobAt(address))
		first <- err
	}()
	<-arrived
	second := make(chan error, 1)
	go func() {
		_, err := f.Fetch(t.Context(), blobAt(address))
		second <- err
	}()
	giveUp()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the one who gave up got %v", err)
	}
	if err := <-second; err != nil {
		t.Errorf("the other got %v", err)
	}
}

func TestSilentBodyTimesOut(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	address, _ := serve(t, func(_ int, w http.ResponseWriter) {
		send(w, content[:10])
		w.(http.Flusher).Flush()
		<-release
	})
	resp, err := fetch.Client{Bounds: transfer.Bounds{Stall: 20 * time.Millisecond}}.Get(t.Context(), address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, transfer.ErrStalled) || !fetch.Transient(err) {
		t.Errorf("got %v, want a transient ErrStalled", err)
	}
}

func TestSecretsStayOutOfErrors(t *testing.T) {
	address, _ := serve(t, func(_ int, w http.ResponseWriter) { w.WriteHeader(404) })
	_, err := fetch.Client{}.Get(t.Context(), strings.Replace(address, "http://", "http://user:hunter2@", 1)+"/x?signature=s3cret", nil)
	if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v", err)
	}
}

func TestProgressSeesEveryAttempt(t *testing.T) {
	address, _ := serve(t, func(n int, w http.ResponseWriter) {
		if n == 1 {
			cut(w)
			return
		}
		send(w, content)
	})
	var p recorder
	if _, err := fetch.New(openCache(t), quick, &p).Fetch(t.Context(), blobAt(address)); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("start blob %d, 10 bytes, failed; start blob %d, %d bytes, done; ", len(content), len(content), len(content))
	if got := p.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// recorder is a Progress for one transfer after another.
type recorder struct {
	strings.Builder
	bytes int
}

func (r *recorder) Start(name string, size int64) fetch.Transfer {
	fmt.Fprintf(r, "start %s %d, ", name, size)
	r.bytes = 0
	return r
}

func (r *recorder) Add(bytes int) { r.bytes += bytes }

func (r *recorder) Finish(err error) {
	outcome := "done"
	if err != nil {
		outcome = "failed"
	}
	fmt.Fprintf(r, "%d bytes, %s; ", r.bytes, outcome)
}
