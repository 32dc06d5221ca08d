package bundle_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
)

// bundled is a bundle of two packages that share a layer, as a plan and as bytes.
func bundled(t *testing.T) (layout *bundle.Layout, packages []io.ReaderAt, data []byte) {
	t.Helper()
	b := bundle.Bundle{Members: render(t,
		bundle.BytesFile("install.sh", 0o755, []byte("#!/bin/sh\n")), bundle.BytesFile("bin/sealift", 0o755, randomBytes(2_000_000)))}
	for _, name := range []string{"one", "two"} {
		p := write(t, demo(name), bundle.WriteOptions{})
		b.Packages, packages = append(b.Packages, open(t, p)), append(packages, bytes.NewReader(p))
	}
	layout, err := bundle.NewLayout(b)
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := layout.Write(t.Context(), &buf, packages); err != nil {
		t.Fatal(err)
	}
	return layout, packages, buf.Bytes()
}

func TestLayoutRangesEqualBundleRanges(t *testing.T) {
	layout, packages, data := bundled(t)
	if layout.Size() != int64(len(data)) || open(t, data).Digest != layout.Digest {
		t.Fatalf("planned %d bytes with index %s, wrote %d", layout.Size(), layout.Digest, len(data))
	}
	r := layout.Reader(packages)
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 500 {
		off := random.Int64N(layout.Size() + 10)
		p := make([]byte, random.IntN(1<<(n%22)+1))
		k, err := r.ReadAt(p, off)
		want := data[min(off, layout.Size()):min(off+int64(len(p)), layout.Size())]
		if !bytes.Equal(p[:k], want) || (err != nil) != (k < len(p)) || err != nil && !errors.Is(err, io.EOF) {
			t.Fatalf("%d bytes from %d: got %d, %v", len(p), off, k, err)
		}
	}
	if _, err := r.ReadAt(make([]byte, 1), -1); err == nil {
		t.Error("read before the beginning")
	}
}

func TestKernelCopiesFileRanges(t *testing.T) {
	layout, packages, data := bundled(t)
	dir := t.TempDir()
	for i, p := range packages {
		content, _ := io.ReadAll(io.NewSectionReader(p, 0, 1<<40))
		f, err := os.OpenFile(filepath.Join(dir, string(rune('a'+i))), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Write(content); err != nil {
			t.Fatal(err)
		}
		packages[i] = f
	}
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := layout.Write(t.Context(), out, packages); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(out.Name()); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%v: %d bytes, want the %d that pass through memory", err, len(got), len(data))
	}
	if err := packages[1].(*os.File).Truncate(1000); err != nil {
		t.Fatal(err)
	}
	if err := layout.Write(t.Context(), out, packages); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "two 1.0.0") {
		t.Errorf("a package that was cut: got %v", err)
	}
}

func TestLayoutTagsDistinguishBundles(t *testing.T) {
	layout, _, _ := bundled(t)
	again, _, _ := bundled(t)
	key, err := signature.Generate()
	if err != nil {
		t.Fatal(err)
	}
	signed, err := bundle.NewLayout(bundle.Bundle{Packages: []*bundle.Archive{open(t, write(t, demo("one"), bundle.WriteOptions{}))}, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	other, err := bundle.NewLayout(bundle.Bundle{Packages: []*bundle.Archive{open(t, write(t, demo("one"), bundle.WriteOptions{}))}})
	if err != nil {
		t.Fatal(err)
	}
	if layout.Tag != again.Tag || layout.Tag == other.Tag || other.Tag == signed.Tag {
		t.Errorf("the tags %s and %s of the same bytes, %s of others, and %s of these when they are signed", layout.Tag, again.Tag, other.Tag, signed.Tag)
	}
}

// update is a bundle after flannel, say, has changed: one add-on is unchanged, another has a new file.
func update(t *testing.T, old []byte) []byte {
	t.Helper()
	since, err := open(t, old).Since()
	if err != nil {
		t.Fatal(err)
	}
	changed := demo("two")
	changed.Files[0] = bundle.BytesFile(changed.Files[0].Path, 0o644, []byte("image app example.org/app:2\n"))
	b := bundle.Bundle{Members: render(t, bundle.BytesFile("install.sh", 0o755, []byte("#!/bin/sh\n"))), Since: since}
	for _, p := range []bundle.Package{demo("one"), changed} {
		b.Packages = append(b.Packages, open(t, write(t, p, bundle.WriteOptions{})))
	}
	var buf bytes.Buffer
	if _, err := bundle.WriteBundle(t.Context(), &buf, b); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestUpdateOmitsFilesOfItsBase(t *testing.T) {
	_, _, old := bundled(t)
	data := update(t, old)
	if len(data) > len(old)/100 {
		t.Errorf("an update of one line has %d bytes, the whole bundle %d", len(data), len(old))
	}
	a := open(t, data)
	if err := a.Verify(t.Context()); !errors.Is(err, bundle.ErrNoBase) {
		t.Errorf("without its base: got %v", err)
	}
	if _, err := a.OpenEntry("addons/one/1.0.0/install.sh"); !errors.Is(err, bundle.ErrNoBase) {
		t.Errorf("without its base: got %v", err)
	}
	if err := a.WithBase(open(t, old)); err != nil {
		t.Fatal(err)
	}
	if err := a.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	for _, f := range demo("one").Files {
		if got := read(t, a, f.Path); int64(len(got)) != f.Size {
			t.Errorf("%s: %d bytes", f.Path, len(got))
		}
	}
	if got := read(t, a, "addons/two/1.0.0/Manifest"); !strings.Contains(string(got), "app:2") {
		t.Errorf("the changed file is %q", got)
	}
	head := make([]byte, 2)
	if err := a.ReadAt("addons/one/1.0.0/images/copy", head, 0); err != nil || !bytes.Equal(head, layer[:2]) {
		t.Errorf("read at an offset: %v %x", err, head)
	}
}

func TestUpdateAndBaseUnpackTogether(t *testing.T) {
	_, _, old := bundled(t)
	a := open(t, update(t, old))
	if err := a.WithBase(open(t, old)); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, bundle.IndexName), index, 0o600); err != nil {
		t.Fatal(err)
	}
	whole, err := bundle.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	if err := whole.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	if since, err := whole.Since(); err != nil || len(whole.Index.Entries) != len(a.Index.Entries) || since == nil {
		t.Errorf("%d entries instead of %d, %v", len(whole.Index.Entries), len(a.Index.Entries), err)
	}
}

func TestWrongOrDamagedBaseIsRefused(t *testing.T) {
	_, _, old := bundled(t)
	data := update(t, old)
	other := assemble(t, write(t, demo("one"), bundle.WriteOptions{}))
	if err := open(t, data).WithBase(open(t, other)); err == nil || !strings.Contains(err.Error(), "extends the one whose index is") {
		t.Errorf("another bundle: got %v", err)
	}
	if err := open(t, old).WithBase(open(t, old)); err == nil {
		t.Error("a bundle that is complete took a base")
	}
	broken := bytes.Clone(old)
	at := bytes.Index(broken, layer[100:200])
	broken[at] ^= 1
	a := open(t, data)
	if err := a.WithBase(open(t, broken)); err != nil {
		t.Fatal(err)
	}
	var digest *bundle.DigestError
	if err := a.Verify(t.Context()); !errors.As(err, &digest) {
		t.Errorf("a damaged base: got %v", err)
	}
	if err := a.VerifyHere(t.Context()); err != nil {
		t.Errorf("what the update itself has: %v", err)
	}
}

func TestUpdateOfUpdateNeedsOneBaseOnly(t *testing.T) {
	_, _, old := bundled(t)
	second := update(t, update(t, old))
	a := open(t, second)
	for _, e := range a.Index.Entries {
		if e.Encoding == bundle.InBase && e.Size > 100_000 {
			t.Errorf("%s is said to be in an update that leaves it out", e.Path)
		}
	}
}

func TestOpenPackageRefusesBundle(t *testing.T) {
	_, _, data := bundled(t)
	if _, err := bundle.OpenPackage(bytes.NewReader(data), int64(len(data))); !errors.Is(err, bundle.ErrNotPackage) {
		t.Errorf("a bundle is taken for a package: %v", err)
	}
	one := write(t, demo("one"), bundle.WriteOptions{})
	if _, err := bundle.OpenPackage(bytes.NewReader(one), int64(len(one))); err != nil {
		t.Error(err)
	}
}
