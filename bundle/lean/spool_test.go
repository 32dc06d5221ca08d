package lean_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/lean"
)

// blocked reads an archive, and waits before each read once it is armed.
type blocked struct {
	*bytes.Reader
	armed  *atomic.Bool
	at, on chan struct{}
}

func (b blocked) ReadAt(p []byte, off int64) (int, error) {
	if b.armed.CompareAndSwap(true, false) {
		close(b.at)
		<-b.on
	}
	return b.Reader.ReadAt(p, off)
}

func TestSpoolCompressesOnePackageAtATime(t *testing.T) {
	pack := func(seed byte) []byte {
		var buf bytes.Buffer
		p := bundle.Package{Name: "demo", Version: "1.0.0", Platforms: []string{"linux/amd64"}, Files: layoutOf(t, imageOf(t, gzipLayer(t, text(seed))))}
		if _, err := bundle.WritePackage(t.Context(), &buf, p, bundle.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	}
	first := pack(1)
	src := blocked{bytes.NewReader(first), new(atomic.Bool), make(chan struct{}), make(chan struct{})}
	slow, err := bundle.NewArchive(src, int64(len(first)))
	if err != nil {
		t.Fatal(err)
	}
	second := pack(2)
	other, err := bundle.NewArchive(bytes.NewReader(second), int64(len(second)))
	if err != nil {
		t.Fatal(err)
	}
	spool := lean.NewSpool(t.TempDir())
	companion := func(a *bundle.Archive) error {
		made, err := spool.Companion(t.Context(), a)
		if err == nil {
			err = made.Close()
		}
		return err
	}
	src.armed.Store(true)
	ended := make(chan error, 1)
	go func() { ended <- companion(slow) }()
	<-src.at
	if err := companion(other); !errors.Is(err, lean.ErrBusy) {
		t.Errorf("the second package beside the first: %v", err)
	}
	close(src.on)
	if err := errors.Join(<-ended, companion(other)); err != nil {
		t.Error(err)
	}
}

// node has the files of an installed bundle.
type node struct{ *bundle.Archive }

func (n node) Open(e bundle.Entry) (io.ReadCloser, error) {
	for _, has := range n.Index.Entries {
		if has.SHA256 == e.SHA256 {
			return n.OpenEntry(has.Path)
		}
	}
	return nil, fs.ErrNotExist
}

// TestRecordedLeanLayersAreLeftOut makes bundles for a cluster that was installed from a lean one.
func TestRecordedLeanLayersAreLeftOut(t *testing.T) {
	plain := packaged(t, layoutOf(t, imageOf(t, gzipLayer(t, text(1)), gzipLayer(t, []byte("small")))))
	companion, err := lean.NewSpool(t.TempDir()).Companion(t.Context(), plain)
	if err != nil {
		t.Fatal(err)
	}
	defer companion.Close()
	write := func(b bundle.Bundle) *bundle.Archive {
		t.Helper()
		var buf bytes.Buffer
		b.Packages = []*bundle.Archive{plain}
		if _, err := bundle.WriteBundle(t.Context(), &buf, b); err != nil {
			t.Fatal(err)
		}
		a, err := bundle.NewArchive(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	with := []*bundle.Archive{companion}
	runs := write(bundle.Bundle{Lean: with})
	recorded := runs.Index.LeanLayers(runs.Index.Packages[0])
	if len(recorded) != 1 {
		t.Fatalf("lean layers %v", recorded)
	}
	since := bundle.SinceInstalled(runs.Digest, []bundle.InstalledPackage{{Archive: plain, Lean: recorded}})
	for name, row := range map[string]struct {
		lean    []*bundle.Archive
		carried int
	}{"lean": {with, 0}, "plain": {nil, 1}} {
		next := write(bundle.Bundle{Lean: row.lean, Since: since})
		carried := 0
		for _, e := range next.Index.Entries {
			if next.Index.OfImage(e) && e.Encoding != bundle.InBase {
				carried++
			}
		}
		if carried != row.carried {
			t.Errorf("%s: %d files of images are carried, want %d", name, carried, row.carried)
		}
		if err := next.WithInstalled(node{runs}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := errors.Join(next.Verify(t.Context()), next.VerifyLayers(t.Context())); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLayersMadeByPatchesAreInstalledAsTar has a cluster that made the tar of a layer of a patch. Its package was built with lean layers.
func TestLayersMadeByPatchesAreInstalledAsTar(t *testing.T) {
	content := text(1)
	files, err := lean.Files(t.Context(), images, layoutOf(t, imageOf(t, gzipLayer(t, content))), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pack := packaged(t, files)
	form := leanFiles(files)[0]
	recorded := map[string]string{form.Layer.Blob: form.Layer.DiffID}
	since := bundle.SinceInstalled(strings.Repeat("0", 64), []bundle.InstalledPackage{{Archive: pack, Lean: recorded}})
	var buf bytes.Buffer
	index, err := bundle.WriteBundle(t.Context(), &buf, bundle.Bundle{Packages: []*bundle.Archive{pack}, Since: since})
	if err != nil {
		t.Fatal(err)
	}
	left := slices.DeleteFunc(index.Entries, func(e bundle.Entry) bool { return e.Layer == nil })
	if len(left) != 1 || left[0].Encoding != bundle.InBase || left[0].SHA256 != form.Layer.DiffID || left[0].Size != int64(len(content)) {
		t.Errorf("the bundle leaves out %+v", left)
	}
}

func TestDamagedCompanionIsRecreated(t *testing.T) {
	plain, spool := packaged(t, layoutOf(t, imageOf(t, gzipLayer(t, text(1))))), t.TempDir()
	for range 2 {
		made, err := lean.NewSpool(spool).Companion(t.Context(), plain)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(made.Verify(t.Context()), made.Close()); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(spool, plain.Digest+".lean-1.tar.gz")
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)/2] ^= 1
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
