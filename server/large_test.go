package server_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/testing/short"
)

// holes is a sparse file.
type holes struct{ *os.File }

var zeros [4 << 10]byte

func (h holes) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		piece := rest[:min(len(rest), len(zeros))]
		if bytes.Equal(piece, zeros[:len(piece)]) {
			if _, err := h.Seek(int64(len(piece)), 1); err != nil {
				return 0, err
			}
		} else if _, err := h.File.Write(piece); err != nil {
			return 0, err
		}
		rest = rest[len(piece):]
	}
	return len(p), nil
}

// TestBundleOverFourGiBIsServed is served at offsets that 32 bits do not hold.
func TestBundleOverFourGiBIsServed(t *testing.T) {
	short.Skip(t, "time for 4 GiB")
	const size = 1<<32 + 1<<20
	dir := t.TempDir()
	disk, err := os.Create(filepath.Join(dir, "disk"))
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	for at, data := range map[int64][]byte{0: layer[:1000], 1 << 32: layer[:1<<20]} {
		if _, err := disk.WriteAt(data, at); err != nil {
			t.Fatal(err)
		}
	}
	file, err := bundle.DiskFile(bundle.AddOnDir("large", "1.0")+"/disk", 0o644, disk.Name())
	if err != nil {
		t.Fatal(err)
	}
	p := bundle.Package{Name: "large", Version: "1.0", Platforms: []string{platform}, Files: []bundle.File{
		bundle.BytesFile(bundle.AddOnDir("large", "1.0")+"/Manifest", 0o644, nil), bundle.BytesFile(bundle.AddOnDir("large", "1.0")+"/install.sh", 0o644, nil), file,
	}}
	out, err := os.Create(filepath.Join(dir, "large-1.0.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := bundle.WritePackage(t.Context(), holes{out}, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	s := serve(t, open(t, dir), nil)
	id := post(t, s.URL, installer("  large: {version: '1.0'}\n"))
	for _, at := range []string{"/bundle/" + id + ".tar.gz", "/dist/large-1.0.tar.gz"} {
		head := ask(t, "HEAD", s.URL+at, "")
		if head.ContentLength < size {
			t.Fatalf("%s has %d bytes", at, head.ContentLength)
		}
		// the content ends before the archive does, which has less than a MiB of indexes and scripts
		end := ask(t, "GET", s.URL+at, "", "Range", "bytes=-2000000", "If-Range", head.Header.Get("ETag"))
		where := bytes.Index(end.body, layer[1<<19:1<<19+100])
		if end.StatusCode != http.StatusPartialContent || where < 0 {
			t.Fatalf("the end of %s: %s, %d bytes, the content is not among them", at, end.Status, len(end.body))
		}
		from := head.ContentLength - int64(len(end.body)-where)
		part := ask(t, "GET", s.URL+at, "", "Range", fmt.Sprintf("bytes=%d-%d", from, from+999), "If-Range", head.Header.Get("ETag"))
		if from < 1<<32 || part.StatusCode != http.StatusPartialContent || !bytes.Equal(part.body, layer[1<<19:1<<19+1000]) {
			t.Errorf("%s from %d: %s, %d bytes with others in them", at, from, part.Status, len(part.body))
		}
	}
}
