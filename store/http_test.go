package store_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sealift/sealift/store"
)

// serveFolder is a web server, and counts its requests.
func serveFolder(t *testing.T, dir string, wrap func(http.Handler) http.Handler) (location string, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	files := http.FileServerFS(os.DirFS(dir))
	if wrap != nil {
		files = wrap(files)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/", requests
}

func writeFile(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestWebServerIsAReadOnlyStore(t *testing.T) {
	dir := t.TempDir()
	v := valueOf(t, random(2<<20))
	data := random(2 << 20)
	writeFile(t, dir, "k", data)
	writeFile(t, dir, "empty", nil)
	writeFile(t, dir, "index.json", []byte(`{"packages": [{"key": "k", "size": 2097152}, {"key": "a", "size": 1}, {"key": "other", "size": 1}]}`))
	location, _ := serveFolder(t, dir, nil)
	s := open(t, store.Opener{}, location)
	if got := digestOf(t, s, "k"); got != v.SHA256 {
		t.Errorf("read %s, want %s", got, v.SHA256)
	}
	if got := digestOf(t, s, "empty"); got != store.Bytes(nil).SHA256 {
		t.Errorf("read %s of nothing", got)
	}
	o, err := s.Get(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	buf := make([]byte, 100)
	for _, off := range []int64{0, 100, 1 << 20, 50, 1<<20 + 100, 2<<20 - 50} {
		n, err := o.ReadAt(buf, off)
		want := data[off:min(off+100, 2<<20)]
		if string(buf[:n]) != string(want) || (len(want) < 100) != errors.Is(err, io.EOF) {
			t.Errorf("read %d bytes at %d, %v", n, off, err)
		}
	}
	if infos, err := s.List(t.Context(), "k"); err != nil || len(infos) != 1 || infos[0].Key != "k" || infos[0].Size != 2<<20 {
		t.Errorf("listed %v, %v", infos, err)
	}
	if _, err := s.Get(t.Context(), "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Put(t.Context(), "k", v); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("put: %v", err)
	}
	if _, err := (store.Opener{Write: true}).Open(location); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("opened for writing: %v", err)
	}
}

func TestSequentialReadsShareRequests(t *testing.T) {
	dir := t.TempDir()
	data := random(16 << 20)
	writeFile(t, dir, "k", data)
	location, requests := serveFolder(t, dir, nil)
	s := open(t, store.Opener{}, location)
	if got := digestOf(t, s, "k"); got != valueOf(t, data).SHA256 {
		t.Errorf("read %s", got)
	}
	if n := requests.Load(); n > 10 { // 256 KiB, then twice as much each time
		t.Errorf("took %d requests", n)
	}
}

func TestConcurrentReadersShareRequests(t *testing.T) {
	dir := t.TempDir()
	data := random(4 << 20)
	writeFile(t, dir, "k", data)
	location, requests := serveFolder(t, dir, nil)
	s := open(t, store.Opener{}, location)
	o, err := s.Get(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	buf := make([]byte, 16<<10)
	for off := int64(0); off < 2<<20; off += int64(len(buf)) {
		for _, at := range []int64{off, off + 2<<20} {
			if _, err := o.ReadAt(buf, at); err != nil || string(buf) != string(data[at:at+int64(len(buf))]) {
				t.Fatalf("other bytes at %d, %v", at, err)
			}
		}
	}
	if n := requests.Load(); n > 12 {
		t.Errorf("took %d requests", n)
	}
}

func TestReplacedFileIsNotMixedWithOldOne(t *testing.T) {
	etag := func(name string) func(http.Handler) http.Handler { // FileServer sets no ETag, but respects an existing one
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				info, err := os.Stat(name)
				if err == nil {
					w.Header().Set("ETag", fmt.Sprintf(`"%x"`, info.ModTime().UnixNano()))
				}
				next.ServeHTTP(w, r)
			})
		}
	}
	for _, kind := range []string{"with ETag", "with a date", "with another size only"} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			name := filepath.Join(dir, "k")
			writeFile(t, dir, "k", random(1<<20))
			var wrap func(http.Handler) http.Handler
			size := 1 << 20
			switch kind {
			case "with ETag":
				wrap = etag(name)
			case "with another size only":
				size++
			}
			location, _ := serveFolder(t, dir, wrap)
			s := open(t, store.Opener{}, location)
			o, err := s.Get(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			defer o.Close()
			before, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, dir, "k", random(size))
			later := before.ModTime().Add(2e9)
			if kind == "with another size only" {
				later = before.ModTime()
			}
			if err := os.Chtimes(name, later, later); err != nil {
				t.Fatal(err)
			}
			if _, err := o.ReadAt(make([]byte, 10), 600<<10); !errors.Is(err, store.ErrChanged) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestWebServerWithoutRangesIsRefused(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) }))
	t.Cleanup(s.Close)
	at := open(t, store.Opener{}, s.URL)
	o, err := at.Get(t.Context(), "k")
	if err == nil {
		_, err = o.ReadAt(make([]byte, 10), 600<<10)
	}
	if err == nil || !strings.Contains(err.Error(), "length") && !strings.Contains(err.Error(), "ranges") {
		t.Errorf("got %v", err)
	}
}
