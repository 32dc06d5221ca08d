package fetch_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/internal/transfer"
)

func TestRetryAfterIsHonored(t *testing.T) {
	var refused time.Time
	address, requests := serve(t, func(n int, w http.ResponseWriter) {
		if n == 1 {
			refused = time.Now()
		}
		if time.Since(refused) < 900*time.Millisecond {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		send(w, content)
	})
	if _, err := fetch.New(openCache(t), quick, nil).Fetch(t.Context(), blobAt(address)); err != nil || requests.Load() != 2 {
		t.Errorf("%d requests, %v", requests.Load(), err)
	}
}

func TestDrippingBlobTimesOut(t *testing.T) {
	address, requests := serve(t, func(_ int, w http.ResponseWriter) {
		for range 200 {
			send(w, ".")
			w.(http.Flusher).Flush()
			time.Sleep(5 * time.Millisecond)
		}
	})
	client := fetch.Client{Bounds: transfer.Bounds{Pace: transfer.Pace{Floor: 1000, Window: 50 * time.Millisecond}}}
	b := blobAt(address)
	from := fetch.Location{Client: client, URL: address}
	b.From, b.Size, b.SHA256 = at(from), 1<<20, strings.Repeat("0", 64)
	if _, err := fetch.New(openCache(t), quick, nil).Fetch(t.Context(), b); !errors.Is(err, transfer.ErrSlow) || requests.Load() != 3 {
		t.Errorf("after %d requests: %v", requests.Load(), err)
	}
}

func TestPlusInPathIsEscaped(t *testing.T) {
	var asked atomic.Value
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.RequestURI)
		send(w, content)
	}))
	t.Cleanup(s.Close)
	if _, err := fetch.New(openCache(t), quick, nil).Fetch(t.Context(), blobAt(s.URL+"/charts/demo-1.0.0+up4.5.tgz")); err != nil || asked.Load() != "/charts/demo-1.0.0%2Bup4.5.tgz" {
		t.Errorf("asked for %v, %v", asked.Load(), err)
	}
}
