package store_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealift/sealift/store"
)

// TestSectionIsRequestedInOnePiece reads the first part of a large value as one that is read in sequence to its end.
func TestSectionIsRequestedInOnePiece(t *testing.T) {
	const limit = 5_000_000
	data := make([]byte, 4*limit)
	var furthest, asked atomic.Int64
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var from, to int64
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to); err == nil {
			asked.Add(1)
			furthest.Store(max(to, furthest.Load()))
		}
		w.Header().Set("ETag", `"one"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}))
	t.Cleanup(front.Close)
	s, err := store.Open(front.URL)
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.Get(t.Context(), "value")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	far, ok := o.(interface{ Section(limit int64) io.ReaderAt })
	if !ok {
		t.Fatalf("a %T has no sections", o)
	}
	if n, err := io.Copy(io.Discard, io.NewSectionReader(far.Section(limit), 0, limit)); n != limit || err != nil {
		t.Fatalf("read %d bytes: %v", n, err)
	}
	if got := furthest.Load(); got >= limit || asked.Load() != 1 {
		t.Errorf("asked %d times for the bytes up to %d, for a reader of %d", asked.Load(), got, limit)
	}
}
