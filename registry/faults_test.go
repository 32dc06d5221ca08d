package registry_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// TestRefusedMountsAreSent has registries that refuse a mount instead of asking for an upload: they do not know it, or give no right to read
// the other repository. The layer is then sent there, too.
func TestRefusedMountsAreSent(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			s, images := newSite(t), several(t)
			var refused atomic.Int64
			s.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPost || r.URL.Query().Get("mount") == "" {
					return false
				}
				refused.Add(1)
				w.WriteHeader(status)
				return true
			})
			done, err := push(t.Context(), content(t, images), options(t, s.Host))
			if err != nil || refused.Load() == 0 || done.Mounted != 0 {
				t.Fatalf("refused %d mounts, copied %d bytes, %v", refused.Load(), done.Mounted, err)
			}
			s.SetFault(nil)
			s.checkAll(t, images)
		})
	}
}

// TestBrokenConnectionsAreRetried uses a registry whose connections break in the middle of uploads, and before answers.
func TestBrokenConnectionsAreRetried(t *testing.T) {
	s, images := newSite(t), several(t)
	var uploads, broken atomic.Int64
	s.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		upload := r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/uploads/") || r.Method == http.MethodPatch
		if !upload || uploads.Add(1)%2 == 0 {
			return false
		}
		if broken.Add(1)%2 == 0 { // it arrived, and the answer does not
			s.Inner.ServeHTTP(discard{http.Header{}}, r)
		} else {
			_, _ = io.CopyN(io.Discard, r.Body, 100)
		}
		panic(http.ErrAbortHandler)
	})
	if _, err := push(t.Context(), content(t, images), options(t, s.Host)); err != nil {
		t.Fatal(err)
	}
	if broken.Load() < 3 {
		t.Errorf("%d of %d uploads broke", broken.Load(), uploads.Load())
	}
	s.SetFault(nil)
	s.checkAll(t, images)
}

// discard is the answer that nobody gets.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}
