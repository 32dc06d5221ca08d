package store_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealift/sealift/store"
)

// TestReturningServerIsAwaited lets a server die in the middle of an answer and refuse far more requests than are tried
// otherwise, as a server does that restarts.
func TestReturningServerIsAwaited(t *testing.T) {
	dir := t.TempDir()
	data := random(8 << 20)
	writeFile(t, dir, "k", data)
	var served, refused atomic.Int64
	var dead atomic.Bool
	location, _ := serveFolder(t, dir, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if dead.Load() && refused.Add(1) == 10 {
				dead.Store(false)
			}
			if dead.Load() {
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(abortingServer{w, &served, &dead}, r)
		})
	})
	var said bytes.Buffer
	s := open(t, store.Opener{Retry: store.Retry{Attempts: 2, Wait: time.Millisecond}, Reads: store.Retry{Wait: time.Millisecond, Within: time.Minute},
		Log: slog.New(slog.NewTextHandler(&said, nil))}, location)
	if got := digestOf(t, s, "k"); got != valueOf(t, data).SHA256 {
		t.Errorf("read %s", got)
	}
	if refused.Load() != 10 || !strings.Contains(said.String(), "retrying") {
		t.Errorf("the server refused %d times; said: %s", refused.Load(), said.String())
	}
}

// abortingServer breaks one response, after some bytes.
type abortingServer struct {
	http.ResponseWriter
	served *atomic.Int64
	dead   *atomic.Bool
}

func (d abortingServer) Write(p []byte) (int, error) {
	before := d.served.Load()
	if after := d.served.Add(int64(len(p))); before < 5<<20 && after >= 5<<20 {
		d.dead.Store(true)
		panic(http.ErrAbortHandler)
	}
	return d.ResponseWriter.Write(p)
}

func TestAbsentServerTimesOut(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "k", random(1<<20))
	var dead atomic.Bool
	location, requests := serveFolder(t, dir, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if dead.Load() {
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		})
	})
	s := open(t, store.Opener{Retry: store.Retry{Attempts: 2, Wait: time.Millisecond}, Reads: store.Retry{Wait: time.Millisecond, Within: 50 * time.Millisecond}}, location)
	o, err := s.Get(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	dead.Store(true)
	if _, err := o.ReadAt(make([]byte, 10), 0); err == nil || !strings.Contains(err.Error(), "tried") {
		t.Errorf("got %v", err)
	}
	before := requests.Load()
	if _, err := s.Get(t.Context(), "k"); err == nil || requests.Load()-before > 2*2 { // net/http may repeat one on its own
		t.Errorf("a server that is not there at first was asked %d times: %v", requests.Load()-before, err)
	}
}
