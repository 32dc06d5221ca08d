package content_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/fleet/content"
)

// line is a connection to a package that is cut after some bytes; it counts the bytes.
type line struct {
	*bytes.Reader
	left, brought int
}

var errCut = errors.New("the line is cut")

func (l *line) ReadAt(p []byte, off int64) (int, error) {
	n := min(len(p), l.left)
	read, err := l.Reader.ReadAt(p[:n], off)
	l.left -= read
	l.brought += read
	if err == nil && n < len(p) {
		err = errCut
	}
	return read, err
}

func packed(t *testing.T, layers ...[]byte) []byte {
	t.Helper()
	p := bundle.Package{Name: "hello", Version: "1", Platforms: []string{"linux/amd64"}, Files: []bundle.File{
		bundle.BytesFile("addons/hello/1/assets/large", 0o644, make([]byte, 1<<20)), // which nobody needs
	}}
	for _, layer := range layers {
		p.Files = append(p.Files, bundle.BytesFile(fmt.Sprintf("addons/hello/1/images/blobs/sha256/%x", sha256.Sum256(layer)), 0o644, layer))
	}
	var out bytes.Buffer
	if _, err := bundle.WritePackage(t.Context(), &out, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func randomBytes(seed uint64, size int) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

// TestFetchResumesWhereItWasCut uses a connection that is cut repeatedly. Only the beginning of the package, with its index, is
// transferred more than once.
func TestFetchResumesWhereItWasCut(t *testing.T) {
	t.Parallel()
	layers := [][]byte{randomBytes(1, 20<<20), randomBytes(2, 12<<20)}
	file, folder := packed(t, layers...), t.TempDir()
	brought, cuts := 0, 0
	for done := false; !done; {
		l := &line{Reader: bytes.NewReader(file), left: 5 << 20}
		a, err := bundle.NewArchive(l, int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		err = content.Fetch(t.Context(), a, folder)
		if done = err == nil; !done && !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		if _, there := os.Stat(filepath.Join(folder, bundle.IndexName)); (there == nil) != done {
			t.Fatalf("after %v the folder is complete: %v", err, there)
		}
		if brought += l.brought; !done {
			cuts++
		}
		if cuts > 100 {
			t.Fatal("it does not come to an end")
		}
	}
	needed := len(layers[0]) + len(layers[1])
	t.Logf("%d cuts: %d bytes for %d, %.4f", cuts, brought, needed, float64(brought)/float64(needed))
	if cuts < 5 || float64(brought) > 1.02*float64(needed) {
		t.Errorf("%d cuts: %d bytes were brought for %d", cuts, brought, needed)
	}
	a, err := bundle.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for _, layer := range layers {
		got, err := a.ReadFile(fmt.Sprintf("addons/hello/1/images/blobs/sha256/%x", sha256.Sum256(layer)), 32<<20)
		if err != nil || !bytes.Equal(got, layer) {
			t.Errorf("a layer differs: %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "addons/hello/1/assets")); err == nil {
		t.Error("more than images was fetched")
	}
}

// TestFetchRestartsAfterChangedBeginning uses a layer whose first part has changed.
func TestFetchRestartsAfterChangedBeginning(t *testing.T) {
	t.Parallel()
	layer := randomBytes(1, 1<<20)
	file, folder := packed(t, layer), t.TempDir()
	name := filepath.Join(folder, fmt.Sprintf("addons/hello/1/images/blobs/sha256/%x", sha256.Sum256(layer)))
	for _, begun := range [][]byte{[]byte("something else"), make([]byte, 2<<20)} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name+".part", begun, 0o600)); err != nil {
			t.Fatal(err)
		}
		a, err := bundle.NewArchive(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		if err := content.Fetch(t.Context(), a, folder); err == nil {
			t.Error("a layer with another content was taken")
		}
		if err := content.Fetch(t.Context(), a, folder); err != nil {
			t.Error(err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(f)
		if err != nil || !bytes.Equal(got, layer) {
			t.Errorf("the layer differs: %v", err)
		}
		if err := errors.Join(f.Close(), os.RemoveAll(folder)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFetchEndsWithItsContext uses a context that ends while a layer is read from a store that ignores it.
func TestFetchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	file := packed(t, randomBytes(1, 20<<20))
	l := &line{Reader: bytes.NewReader(file), left: len(file)}
	a, err := bundle.NewArchive(l, int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := l.brought
	if err := content.Fetch(ctx, a, t.TempDir()); !errors.Is(err, context.Canceled) || l.brought-before > 1<<20 {
		t.Errorf("%d bytes were brought after the end: %v", l.brought-before, err)
	}
}
