package delta_test

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/delta"
)

// program returns code whose addresses differ between versions.
func program(seed, version uint64, size int) []byte {
	code, changes := rand.New(rand.NewPCG(seed, 2)), rand.New(rand.NewPCG(version, 3))
	var out []byte
	for shift := uint32(0); len(out) < size; {
		if version > 0 && changes.IntN(1000) == 0 {
			out = append(out, bytes.Repeat([]byte{byte(changes.Uint32())}, 40)...)
			shift += 40
		}
		for range 4 + code.IntN(12) {
			out = append(out, byte(code.Uint32())&0x3f)
		}
		out = binary.LittleEndian.AppendUint32(out, code.Uint32()>>12+shift)
	}
	return out
}

func layerOf(t *testing.T, name string, content []byte) v1.Layer {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

const baseLayer = 20 // its seed: the same in all versions

// packageOf returns a package with a program, a text that never changes, a compressed file, and an image of two layers.
func packageOf(t *testing.T, version uint64) *bundle.Archive {
	t.Helper()
	return packageWith(t, version, layerOf(t, "app", program(21, version, 400_000)), map[string][]byte{"program": program(1, version, 500_000)})
}

// packageWith is packageOf with other programs, and another layer of the image.
func packageWith(t *testing.T, version uint64, app v1.Layer, programs map[string][]byte) *bundle.Archive {
	t.Helper()
	p := bundle.Package{Name: "demo", Version: fmt.Sprintf("1.%d.0", version), Platforms: []string{"linux/amd64"}}
	dir := bundle.AddOnDir(p.Name, p.Version)
	image, err := mutate.AppendLayers(empty.Image, layerOf(t, "base", program(baseLayer, 0, 200_000)), app)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	oci, err := layout.Write(folder, empty.Index)
	if err == nil {
		err = oci.AppendImage(image, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": fmt.Sprintf("example.org/app:v1.%d.0", version)}))
	}
	if err != nil {
		t.Fatal(err)
	}
	err = fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		f, err := bundle.DiskFile(path.Join(dir, "images", name), 0o644, filepath.Join(folder, name))
		p.Files = append(p.Files, f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, 100_000)
	_, _ = rand.NewChaCha8([32]byte{byte(version)}).Read(noise)
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		p.Files = append(p.Files, bundle.BytesFile(path.Join(dir, "assets", name), 0o755, programs[name]))
	}
	p.Files = append(p.Files,
		bundle.BytesFile(path.Join(dir, "assets/same"), 0o755, program(2, 0, 100_000)),
		bundle.BytesFile(path.Join(dir, "assets/packed.tgz"), 0o644, append([]byte{0x1f, 0x8b}, noise...)),
		bundle.BytesFile(path.Join(dir, "install.sh"), 0o644, fmt.Appendf(nil, "echo %d\n", version)))
	var buf bytes.Buffer
	if _, err := bundle.WritePackage(t.Context(), &buf, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return opened(t, buf.Bytes())
}

func opened(t *testing.T, data []byte) *bundle.Archive {
	t.Helper()
	a, err := bundle.NewArchive(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func bundleOf(t *testing.T, b bundle.Bundle) []byte {
	t.Helper()
	var buf bytes.Buffer
	if _, err := bundle.WriteBundle(t.Context(), &buf, b); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// update returns a bundle with patches of the packages, and its archive.
func update(t *testing.T, e delta.Earlier, b bundle.Bundle) []byte {
	t.Helper()
	e.Spool, b.Since = delta.NewSpool(t.TempDir()), e.Since
	set, err := e.Make(t.Context(), b.Packages, b.Lean)
	if err != nil {
		t.Fatal(err)
	}
	b.Members, b.Patched = append(b.Members, set.Members...), set.Entries
	data := bundleOf(t, b)
	if err := set.Close(); err != nil {
		t.Fatal(err)
	}
	return data
}

func earlier(t *testing.T, old *bundle.Archive) delta.Earlier {
	t.Helper()
	since, err := old.Since()
	if err != nil {
		t.Fatal(err)
	}
	return delta.Earlier{Archives: []*bundle.Archive{old}, Since: since}
}

func contentOf(t *testing.T, a *bundle.Archive, name string) []byte {
	t.Helper()
	r, err := a.OpenEntry(name)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// equalsWhole compares a bundle, with its base, to the packages that it is made of. Layers are compared unpacked.
func equalsWhole(t *testing.T, a, p *bundle.Archive) {
	t.Helper()
	if err := a.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.VerifyLayers(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, e := range p.Index.Entries {
		if form, ok := a.LeanLayer(e.Path); ok {
			r, err := a.OpenLayer(form.Path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, r); err != nil || form.Layer.Blob != e.SHA256 {
				t.Errorf("%s: %v", e.Path, err)
			}
			continue
		}
		if !bytes.Equal(contentOf(t, a, e.Path), contentOf(t, p, e.Path)) {
			t.Errorf("%s differs from the package's", e.Path)
		}
	}
}

func withBase(t *testing.T, data []byte, base *bundle.Archive) *bundle.Archive {
	t.Helper()
	a := opened(t, data)
	if err := a.WithBase(base); err != nil {
		t.Fatal(err)
	}
	return a
}
