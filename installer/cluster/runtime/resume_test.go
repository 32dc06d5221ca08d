package runtime_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/store"
)

// line is a web server with a package, which breaks off for good after some bytes.
type line struct {
	url  string
	data []byte
	left atomic.Int64 // bytes until it breaks
	sent atomic.Int64
}

func serveLine(t *testing.T, data []byte) *line {
	t.Helper()
	l := &line{data: data}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(breaking{w, l}, r, "", time.Unix(1, 0), bytes.NewReader(l.data))
	}))
	t.Cleanup(front.Close)
	l.url = front.URL
	return l
}

type breaking struct {
	http.ResponseWriter
	*line
}

func (b breaking) Write(p []byte) (int, error) {
	if b.left.Add(-int64(len(p))) < 0 {
		panic(http.ErrAbortHandler)
	}
	b.sent.Add(int64(len(p)))
	return b.ResponseWriter.Write(p)
}

// load loads the images of the package that is on a line.
func (l *line) load(t *testing.T, r *runtime.Runtime) error {
	t.Helper()
	s, err := store.Opener{Retry: store.Retry{Attempts: 1}}.Open(l.url)
	if err != nil {
		t.Fatal(err)
	}
	object, err := s.Get(t.Context(), "package")
	if err != nil {
		t.Fatal(err)
	}
	a, err := bundle.OpenSource(object)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	_, err = r.Load(t.Context(), openLayout(t, a), func(string) {})
	return err
}

func TestInterruptedLoadResumesInsideLayer(t *testing.T) {
	const size = 24_000_000
	const whole = 1 << 40
	r := connect(t)
	l := serveLine(t, pack(t, map[string]v1.Image{"example.org/one:1": imageOf(t, size, 1)}))
	for n, row := range []struct{ allowed, most int64 }{{10_000_000, 10_000_000}, {9_000_000, 9_000_000}, {whole, size - 17_000_000}} {
		l.left.Store(row.allowed)
		l.sent.Store(0)
		if err := l.load(t, r); (err == nil) != (row.allowed == whole) {
			t.Fatalf("load %d: %v", n+1, err)
		}
		if got := l.sent.Load(); got > row.most {
			t.Errorf("load %d: %d bytes were sent, want at most %d", n+1, got, row.most)
		}
	}
}

func TestDamagedPartialLayerIsRefetched(t *testing.T) {
	r := connect(t)
	l := serveLine(t, pack(t, map[string]v1.Image{"example.org/one:1": imageOf(t, 24_000_000, 1)}))
	right := l.data
	l.data = bytes.Clone(right)
	l.data[5_000_000] ^= 1
	l.left.Store(10_000_000)
	if err := l.load(t, r); err == nil {
		t.Fatal("the line did not break")
	}
	l.data = right
	l.left.Store(1 << 40)
	if err := l.load(t, r); err != nil {
		t.Errorf("after wrong bytes came over the line: %v", err)
	}
	if sent := l.sent.Load(); sent < 10_000_000+24_000_000+10_000_000 {
		t.Errorf("%d bytes were sent: the wrong half cannot have been replaced", sent)
	}
}
