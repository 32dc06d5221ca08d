package delta_test

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
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
	p := bundle.Package{Name: "demo", Version: fmt.Sprintf("1.%d.0", version), Platforms: []string{"linux/amd64"}}
	dir := bundle.AddOnDir(p.Name, p.Version)
	image, err := mutate.AppendLayers(empty.Image, layerOf(t, "base", program(baseLayer, 0, 200_000)), layerOf(t, "app", program(21, version, 400_000)))
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
	p.Files = append(p.Files,
		bundle.BytesFile(path.Join(dir, "assets/program"), 0o755, program(1, version, 500_000)),
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
	e.Spool, b.Since = t.TempDir(), e.Since
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

func TestPatchesAndBaseAreTheWhole(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	first, second, third := packageOf(t, 0), packageOf(t, 1), packageOf(t, 2)
	old := opened(t, bundleOf(t, bundle.Bundle{Packages: []*bundle.Archive{first}}))
	data := update(t, earlier(t, old), bundle.Bundle{Packages: []*bundle.Archive{second}})
	plain := bundleOf(t, bundle.Bundle{Packages: []*bundle.Archive{second}, Since: earlier(t, old).Since})
	if len(data) > len(plain)/2 {
		t.Errorf("with patches %d bytes, without %d", len(data), len(plain))
	}
	a := withBase(t, data, old)
	if a.Index.Format != bundle.FormatPatch {
		t.Errorf("the format is %s", a.Index.Format)
	}
	patched := map[string]bool{}
	for _, e := range a.Index.Entries {
		if e.Encoding == bundle.Patched {
			patched[path.Base(e.Link)] = true
		}
	}
	if len(patched) != 2 || !patched["program"] {
		t.Errorf("patched are %v", patched)
	}
	equalsWhole(t, a, second)
	head, name := make([]byte, 4), "addons/demo/1.1.0/assets/program"
	if err := a.ReadAt(name, head, 1000); err != nil || !bytes.Equal(head, program(1, 1, 500_000)[1000:1004]) {
		t.Errorf("read at an offset: %x %v", head, err)
	}
	rest, err := a.OpenRest(name, 400_000)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(rest); err != nil || !bytes.Equal(got, program(1, 1, 500_000)[400_000:]) {
		t.Errorf("the rest: %d bytes, %v", len(got), err)
	}

	// Another Sealift unpacks both into one folder.
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := a.Extract(t.Context(), root, func(bundle.Entry) bool { return true }); err != nil {
		t.Fatal(err)
	}
	index, err := a.UnpackedIndex()
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, bundle.IndexName), index, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	whole, err := bundle.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	equalsWhole(t, whole, second)

	// The next bundle adds to this one as it was unpacked: layers that a patch made are bases, and are left out where they stay.
	next := update(t, earlier(t, whole), bundle.Bundle{Packages: []*bundle.Archive{third}})
	equalsWhole(t, withBase(t, next, whole), third)
	again := update(t, earlier(t, whole), bundle.Bundle{Packages: []*bundle.Archive{second}})
	if len(again) > 20_000 {
		t.Errorf("nothing changed, and the bundle has %d bytes", len(again))
	}
	equalsWhole(t, withBase(t, again, whole), second)

	// The record of a cluster that was upgraded with this bundle names the layers that patches made.
	layers := a.Index.LeanLayers(a.Index.Packages[0])
	since := bundle.SinceInstalled(whole.Digest, []bundle.InstalledPackage{{Archive: second, Lean: layers}})
	recorded := delta.Earlier{Archives: []*bundle.Archive{second}, Since: since}
	for _, p := range []*bundle.Archive{second, third} {
		data := update(t, recorded, bundle.Bundle{Packages: []*bundle.Archive{p}})
		if most := len(plain) / 2; len(data) > most {
			t.Errorf("after %d layers as patches: %d bytes, more than %d", len(layers), len(data), most)
		}
		b := opened(t, data)
		if err := b.WithInstalled(node{Archive: whole}); err != nil {
			t.Fatal(err)
		}
		equalsWhole(t, b, p)
	}
	if err := errors.Join(a.Close(), whole.Close()); err != nil {
		t.Error(err)
	}
}

// node has the files of a bundle.
type node struct {
	*bundle.Archive
	changed string // this path has other bytes
}

func (n node) Open(e bundle.Entry) (io.ReadCloser, error) {
	if e.Path == n.changed {
		return io.NopCloser(bytes.NewReader(make([]byte, e.Size))), nil
	}
	return n.OpenEntry(e.Path)
}

func TestForgedAndMissingBasesAreRefused(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	first, second := packageOf(t, 0), packageOf(t, 1)
	old := opened(t, bundleOf(t, bundle.Bundle{Packages: []*bundle.Archive{first}}))
	// a cluster's record names its packages
	installed := delta.Earlier{Archives: []*bundle.Archive{first}, Since: bundle.SinceInstalled(old.Digest, []bundle.InstalledPackage{{Archive: first}})}
	data := update(t, installed, bundle.Bundle{Packages: []*bundle.Archive{second}})

	a := opened(t, data)
	if err := a.Verify(t.Context()); !errors.Is(err, bundle.ErrNoBase) || !strings.Contains(err.Error(), old.Digest) {
		t.Errorf("without the base: %v", err)
	}
	if err := a.WithBase(opened(t, bundleOf(t, bundle.Bundle{Packages: []*bundle.Archive{second}}))); err == nil || !strings.Contains(err.Error(), old.Digest) {
		t.Errorf("with another bundle: %v", err)
	}
	for _, name := range []string{"addons/demo/1.0.0/assets/program", a.Index.Entries[len(a.Index.Entries)-1].Link} {
		if name == "" {
			continue
		}
		forged := opened(t, data)
		if err := forged.WithInstalled(node{old, name}); err != nil {
			t.Fatal(err)
		}
		var digest *bundle.DigestError
		if err := forged.Verify(t.Context()); !errors.As(err, &digest) || !strings.Contains(err.Error(), name) {
			t.Errorf("a node whose %s has other bytes: %v", name, err)
		}
	}
	good := opened(t, data)
	if err := good.WithInstalled(node{Archive: old}); err != nil {
		t.Fatal(err)
	}
	equalsWhole(t, good, second)
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %v %v", left, err)
	}
}

func TestEachDamagedPatchIsNamed(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	first, second := packageOf(t, 0), packageOf(t, 1)
	old := opened(t, bundleOf(t, bundle.Bundle{Packages: []*bundle.Archive{first}}))
	data := update(t, earlier(t, old), bundle.Bundle{Packages: []*bundle.Archive{second}})
	a := opened(t, data)
	var patches []bundle.Entry
	for _, e := range a.Index.Entries {
		if bundle.OfPatches(e) {
			patches = append(patches, e)
		}
	}
	if len(patches) != 2 {
		t.Fatalf("%d patches", len(patches))
	}
	random := rand.New(rand.NewPCG(1, 1))
	for n := range 20 {
		p := patches[n%len(patches)]
		content := contentOf(t, a, p.Path)
		at := bytes.Index(data, content[:512]) + random.IntN(512)
		damaged := bytes.Clone(data)
		damaged[at] ^= 1 << random.IntN(8)
		b := withBase(t, damaged, old)
		if err := b.Verify(t.Context()); err == nil || !strings.Contains(err.Error(), p.Path) {
			t.Errorf("byte %d flipped in %s: %v", at, p.Path, err)
		}
	}
	if _, err := bundle.NewArchive(bytes.NewReader(data[:len(data)-2000]), int64(len(data)-2000)); err == nil || !strings.Contains(err.Error(), "truncated") {
		t.Errorf("a bundle that is cut off: %v", err)
	}
}

func TestImpossiblePatchesAreRefused(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	first, second := packageOf(t, 0), packageOf(t, 1)
	old := opened(t, bundleOf(t, bundle.Bundle{Packages: []*bundle.Archive{first}}))
	a := opened(t, update(t, earlier(t, old), bundle.Bundle{Packages: []*bundle.Archive{second}}))
	index, _ := a.Raw()
	program := entry(t, a, "addons/demo/1.1.0/assets/program")
	for want, change := range map[string][2]string{
		"is patched, which format":      {"archive/v3", "archive/v2"},
		`archive/v9" is not known`:      {"archive/v3", "archive/v9"},
		"is not an earlier file":        {`"path": "` + program.Patch.Path + `",` + "\n    \"base\"", `"path": "patches/none",` + "\n    \"base\""},
		"has the encoding":              {`"encoding": "patch"`, `"encoding": "base"`},
		"without the digests":           {program.Patch.From.SHA256, "x"},
		"impossible size":               {fmt.Sprintf(`"size": %d`, program.Size), `"size": 3000000000`},
		"bytes of memory":               {fmt.Sprintf(`"memory": %d`, program.Patch.Memory), `"memory": 3000000000`},
		"not the digest of a bundle":    {`"base": "` + a.Index.Base + `"`, `"base": "x"`},
		"is in another bundle, but the": {`"base": "` + a.Index.Base + `"`, `"base": ""`},
	} {
		if !bytes.Contains(index, []byte(change[0])) {
			t.Fatalf("the index has no %s", change[0])
		}
		if _, err := bundle.NewUnpacked(bytes.ReplaceAll(index, []byte(change[0]), []byte(change[1])), nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func entry(t *testing.T, a *bundle.Archive, name string) bundle.Entry {
	t.Helper()
	e, ok := a.Entry(name)
	if !ok || e.Patch == nil {
		t.Fatalf("%s is not patched", name)
	}
	return e
}
