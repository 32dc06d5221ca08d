package bundle_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/internal/regularfile"
)

// randomBytes returns bytes that deflate cannot shrink, with the start of a gzip file.
func randomBytes(n int) []byte {
	r := rand.NewChaCha8([32]byte{byte(n)})
	data := make([]byte, n)
	_, _ = r.Read(data)
	copy(data, []byte{0x1f, 0x8b})
	return data
}

var layer = randomBytes(3_000_000)

// demo is an add-on with one file of each kind that the format treats in its own way.
func demo(name string) bundle.Package {
	dir := "addons/" + name + "/1.0.0/"
	return bundle.Package{
		Name: name, Version: "1.0.0", Platforms: []string{"linux/amd64"}, Targets: []string{"debian-12"},
		Files: []bundle.File{
			bundle.BytesFile(dir+"Manifest", 0o644, []byte("image app example.org/app:1\n")),
			bundle.BytesFile(dir+"install.sh", 0o755, bytes.Repeat([]byte("echo "+name+"\n"), 2000)),
			bundle.BytesFile(dir+"empty", 0o644, nil),
			bundle.BytesFile(dir+"assets/tool", 0o644, bytes.Repeat([]byte("ELF and more of it "), 200_000)),
			bundle.BytesFile(dir+"assets/"+strings.Repeat("long/", 40)+strings.Repeat("n", 120), 0o600, []byte("needs a PAX record")),
			bundle.BytesFile(dir+"images/blobs/sha256/"+strings.Repeat("a", 64), 0o644, layer),
			bundle.BytesFile(dir+"images/copy", 0o644, layer),
		},
	}
}

func write(t *testing.T, p bundle.Package, o bundle.WriteOptions) []byte {
	t.Helper()
	var buf bytes.Buffer
	if _, err := bundle.WritePackage(t.Context(), &buf, p, o); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func open(t *testing.T, data []byte) *bundle.Archive {
	t.Helper()
	a, err := bundle.NewArchive(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func read(t *testing.T, a *bundle.Archive, path string) []byte {
	t.Helper()
	data, err := a.ReadFile(path, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// unpack lets the system's tar extract an archive.
func unpack(t *testing.T, data []byte) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "tar", "xzf", "-", "-C", dir)
	cmd.Stdin = bytes.NewReader(data)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("tar: %v: %s", err, out)
	}
	return dir
}

func TestTarAndArchiveSeeSameFiles(t *testing.T) {
	p := demo("app")
	data := write(t, p, bundle.WriteOptions{})
	a, dir := open(t, data), unpack(t, data)
	for _, f := range p.Files {
		r, _ := f.Open()
		want, _ := io.ReadAll(r)
		if got := read(t, a, f.Path); !bytes.Equal(got, want) {
			t.Errorf("%s: read in place: %d bytes differ from the %d packed", f.Path, len(got), len(want))
		}
		name := filepath.Join(dir, filepath.FromSlash(f.Path))
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: unpacked by tar: %v, %d bytes", f.Path, err, len(got))
		}
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != f.Mode {
			t.Errorf("%s: mode %v, want %v", f.Path, info.Mode(), f.Mode)
		}
	}
	if err := a.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSamePackageGivesSameBytes(t *testing.T) {
	spool := t.TempDir()
	want := write(t, demo("app"), bundle.WriteOptions{})
	reversed := demo("app")
	for i, j := 0, len(reversed.Files)-1; i < j; i, j = i+1, j-1 {
		reversed.Files[i], reversed.Files[j] = reversed.Files[j], reversed.Files[i]
	}
	for name, got := range map[string][]byte{
		"eight jobs":    write(t, demo("app"), bundle.WriteOptions{Jobs: 8, Spool: spool}),
		"warm spool":    write(t, demo("app"), bundle.WriteOptions{Spool: spool}),
		"another order": write(t, reversed, bundle.WriteOptions{}),
	} {
		if !bytes.Equal(got, want) {
			t.Errorf("%s: other bytes", name)
		}
	}
}

func TestFileIsWrittenConcurrently(t *testing.T) {
	big := demo("app")
	big.Files = append(big.Files, bundle.BytesFile("addons/app/1.0.0/images/big", 0o644, randomBytes(20_000_000)))
	want := write(t, big, bundle.WriteOptions{})
	for name, sum := range map[string]hash.Hash{"alone": nil, "with its sum": sha256.New()} {
		t.Run(name, func(t *testing.T) {
			f, err := os.Create(filepath.Join(t.TempDir(), "package.tar.gz"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			o := bundle.WriteOptions{Jobs: 4}
			if sum != nil {
				o.Sum = sum
			}
			if _, err := bundle.WritePackage(t.Context(), f, big, o); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(f.Name()); err != nil || !bytes.Equal(got, want) {
				t.Errorf("got other bytes than one job writes, %v", err)
			}
			if total := sha256.Sum256(want); sum != nil && !bytes.Equal(sum.Sum(nil), total[:]) {
				t.Errorf("summed up as %x, want %x", sum.Sum(nil), total)
			}
		})
	}
}

func TestStreamSumEqualsSumOfBytes(t *testing.T) {
	sum := sha256.New()
	data := write(t, demo("app"), bundle.WriteOptions{Sum: sum})
	if total := sha256.Sum256(data); !bytes.Equal(sum.Sum(nil), total[:]) {
		t.Errorf("summed up as %x, want %x", sum.Sum(nil), total)
	}
}

func TestEachByteTravelsOnce(t *testing.T) {
	one := write(t, demo("one"), bundle.WriteOptions{})
	if len(one) > len(layer)*11/10 {
		t.Errorf("package has %d bytes, its repeated layer %d", len(one), len(layer))
	}
	two := write(t, demo("two"), bundle.WriteOptions{})
	data := assemble(t, one, two)
	if len(data) > len(one)*11/10 {
		t.Errorf("bundle of two packages with the same layer has %d bytes, one package %d", len(data), len(one))
	}
	a, dir := open(t, data), unpack(t, data)
	for _, name := range []string{"one", "two"} {
		for _, f := range demo(name).Files {
			if got, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f.Path))); err != nil || int64(len(got)) != f.Size {
				t.Errorf("%s: %v, %d bytes", f.Path, err, len(got))
			}
			if got := read(t, a, f.Path); int64(len(got)) != f.Size {
				t.Errorf("%s: %d bytes, want %d", f.Path, len(got), f.Size)
			}
		}
	}
	unpacked, err := bundle.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer unpacked.Close()
	if err := unpacked.Verify(t.Context()); err != nil || unpacked.Digest != a.Digest {
		t.Errorf("unpacked bundle: %v, digest %s, want %s", err, unpacked.Digest, a.Digest)
	}
	longer := demo("one").Files[0].Path
	f, err := os.OpenFile(filepath.Join(dir, filepath.FromSlash(longer)), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString("x")
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := unpacked.Verify(t.Context()); err == nil || !strings.Contains(err.Error(), longer) {
		t.Errorf("a file with another byte at its end: %v", err)
	}
}

func assemble(t *testing.T, packages ...[]byte) []byte {
	t.Helper()
	b := bundle.Bundle{Members: render(t, bundle.BytesFile("install.sh", 0o755, []byte("#!/bin/sh\n")))}
	for _, p := range packages {
		b.Packages = append(b.Packages, open(t, p))
	}
	var buf bytes.Buffer
	if _, err := bundle.WriteBundle(t.Context(), &buf, b); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// render makes members of files for as long as the test runs.
func render(t *testing.T, files ...bundle.File) []*bundle.Member {
	t.Helper()
	members, err := bundle.Render(t.Context(), files, bundle.WriteOptions{Jobs: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, m := range members {
			_ = m.Close()
		}
	})
	return members
}

func TestBundleKeepsPackageIndexes(t *testing.T) {
	one := write(t, demo("one"), bundle.WriteOptions{})
	a := open(t, assemble(t, one))
	info, ok := a.Package("one", "1.0.0")
	if !ok || info.Index != open(t, one).Digest {
		t.Fatalf("bundle names index %q of package one, want %q", info.Index, open(t, one).Digest)
	}
	sum := sha256.Sum256(read(t, a, info.Dir()+"/index.json"))
	if got := hex.EncodeToString(sum[:]); got != info.Index {
		t.Errorf("index inside the bundle has digest %s, want %s", got, info.Index)
	}
}

func TestSameAddOnTwiceIsRefused(t *testing.T) {
	one := open(t, write(t, demo("one"), bundle.WriteOptions{}))
	_, err := bundle.WriteBundle(t.Context(), io.Discard, bundle.Bundle{Packages: []*bundle.Archive{one, one}})
	if err == nil || !strings.Contains(err.Error(), "one is listed twice") {
		t.Errorf("got %v", err)
	}
}

func TestWrongContentIsRefusedWhenPacking(t *testing.T) {
	for name, spoil := range map[string]func(*bundle.File){
		"other digest": func(f *bundle.File) { f.SHA256 = strings.Repeat("0", 64) },
		"too short":    func(f *bundle.File) { f.Size++ },
		"too long":     func(f *bundle.File) { f.Size-- },
	} {
		t.Run(name, func(t *testing.T) {
			for i := range demo("app").Files {
				p := demo("app")
				if p.Files[i].Size == 0 {
					continue
				}
				spoil(&p.Files[i])
				if _, err := bundle.WritePackage(t.Context(), io.Discard, p, bundle.WriteOptions{}); err == nil {
					t.Errorf("%s: packed", p.Files[i].Path)
				}
			}
		})
	}
}

func TestBrokenSpoolIsRecreated(t *testing.T) {
	spool := t.TempDir()
	want := write(t, demo("app"), bundle.WriteOptions{Spool: spool})
	names, _ := filepath.Glob(filepath.Join(spool, "*"))
	if len(names) == 0 {
		t.Fatal("nothing spooled")
	}
	data, _ := os.ReadFile(names[0])
	data[len(data)/2] ^= 1
	if err := os.WriteFile(names[0], data, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := bundle.WritePackage(t.Context(), io.Discard, demo("app"), bundle.WriteOptions{Spool: spool}); err == nil {
		t.Error("packed from a broken spool")
	}
	if got := write(t, demo("app"), bundle.WriteOptions{Spool: spool}); !bytes.Equal(got, want) {
		t.Error("other bytes after the spool was broken")
	}
}

func TestTruncationIsFoundAtOpen(t *testing.T) {
	data := write(t, demo("app"), bundle.WriteOptions{})
	for _, n := range []int{0, 5, 200, len(data) / 2, len(data) - 1} {
		if _, err := bundle.NewArchive(bytes.NewReader(data[:n]), int64(n)); err == nil || !strings.Contains(err.Error(), "truncated") {
			t.Errorf("%d of %d bytes: got %v", n, len(data), err)
		}
	}
	longer := append(bytes.Clone(data), 0)
	if _, err := bundle.NewArchive(bytes.NewReader(longer), int64(len(longer))); err == nil {
		t.Error("a byte behind the end was accepted")
	}
}

// TestOpenRefusesPipe opens a pipe without a writer: waiting for it would not end.
func TestOpenRefusesPipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := bundle.Open(name); err == nil || !strings.Contains(err.Error(), "neither a file nor a folder") {
		t.Errorf("got %v", err)
	}
}

// TestUnpackedBundleWithPipeIsRefused replaces each file with a pipe without a writer: no command may wait for it.
func TestUnpackedBundleWithPipeIsRefused(t *testing.T) {
	signed := write(t, demo("one"), bundle.WriteOptions{Key: newSigner(t).key})
	for _, name := range []string{bundle.IndexName, bundle.SignatureName, "addons/one/1.0.0/Manifest"} {
		t.Run(name, func(t *testing.T) {
			dir := unpack(t, assemble(t, signed))
			file := filepath.Join(dir, filepath.FromSlash(name))
			if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(file, 0o600); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() {
				a, err := bundle.Open(dir)
				if err == nil {
					err = errors.Join(a.Verify(t.Context()), a.Close())
				}
				done <- err
			}()
			select {
			case err := <-done:
				if !errors.Is(err, regularfile.ErrNot) || !strings.Contains(err.Error(), name) {
					t.Errorf("got %v", err)
				}
			case <-time.After(30 * time.Second):
				t.Fatal("waits for the pipe")
			}
		})
	}
}

func TestFlippedByteIsFoundWhereItLies(t *testing.T) {
	data := write(t, demo("app"), bundle.WriteOptions{})
	for _, e := range open(t, data).Index.Entries {
		if e.Encoding == bundle.Link || e.Size == 0 {
			continue
		}
		broken := bytes.Clone(data)
		at := int(bodyOffset(t, data)) + int(e.Offset) + int(e.Length) - 16 - int(-e.Size&511) - 5
		if e.Encoding == bundle.Stored {
			at = int(bodyOffset(t, data)) + int(e.Offset) + 10 + 5 + int(e.Header) + 1
		}
		broken[at] ^= 0x10
		_, err := open(t, broken).ReadFile(e.Path, 1<<30)
		if err == nil || !strings.Contains(err.Error(), e.Path) {
			t.Errorf("%s: flipped byte gave %v", e.Path, err)
		}
		var digest *bundle.DigestError
		if e.Encoding == bundle.Stored && !errors.As(err, &digest) {
			t.Errorf("%s: got %v, want a DigestError", e.Path, err)
		}
	}
}

// bodyOffset returns the offset of the first member, from the length of all members.
func bodyOffset(t *testing.T, data []byte) int64 {
	t.Helper()
	entries := open(t, data).Index.Entries
	last := entries[len(entries)-1]
	end := bytes.LastIndex(data, []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255})
	return int64(end) - last.Offset - last.Length
}

func TestExtractWritesWantedEntriesOnly(t *testing.T) {
	a := open(t, write(t, demo("app"), bundle.WriteOptions{}))
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	small := func(e bundle.Entry) bool { return !strings.Contains(e.Path, "/images/") }
	for range 2 { // a second time replaces
		if err := a.Extract(t.Context(), root, small); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "addons/app/1.0.0/images")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("images were extracted: %v", err)
	}
	if info, err := os.Stat(filepath.Join(dir, "addons/app/1.0.0/install.sh")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("install.sh: %v", err)
	}
}

func TestExtractAgainIgnoresFilesOutsideIndex(t *testing.T) {
	a := open(t, write(t, demo("app"), bundle.WriteOptions{}))
	before, again := t.TempDir(), t.TempDir()
	from, err := os.OpenRoot(before)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenRoot(again)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	all := func(bundle.Entry) bool { return true }
	if err := a.Extract(t.Context(), from, all); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"install.sh", "InRelease"} { // changed, and signed by nobody
		if err := os.WriteFile(filepath.Join(before, "addons/app/1.0.0", name), []byte("evil"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.ExtractAgain(t.Context(), to, from, all); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(again, "addons/app/1.0.0/install.sh")); err != nil || string(data) == "evil" {
		t.Errorf("install.sh is %q, %v", data, err)
	}
	if _, err := os.Stat(filepath.Join(again, "addons/app/1.0.0/InRelease")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that the archive has not was taken: %v", err)
	}
}

func TestExtractStaysBelowItsRoot(t *testing.T) {
	a := open(t, write(t, demo("app"), bundle.WriteOptions{}))
	dir, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "addons")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := a.Extract(t.Context(), root, func(bundle.Entry) bool { return true }); err == nil {
		t.Error("extracted through a link that leaves the root")
	}
	if left, _ := os.ReadDir(outside); len(left) != 0 {
		t.Errorf("wrote %v outside", left)
	}
}

func TestCancelledWriteStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := bundle.WritePackage(ctx, io.Discard, demo("app"), bundle.WriteOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func FuzzNewArchive(f *testing.F) {
	var buf bytes.Buffer
	small := bundle.Package{Name: "a", Version: "1", Files: []bundle.File{bundle.BytesFile("addons/a/1/f", 0o644, []byte("hello"))}}
	if _, err := bundle.WritePackage(context.Background(), &buf, small, bundle.WriteOptions{}); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes())
	key, err := signature.Generate()
	if err != nil {
		f.Fatal(err)
	}
	var signed bytes.Buffer
	if _, err := bundle.WritePackage(context.Background(), &signed, small, bundle.WriteOptions{Key: key}); err != nil {
		f.Fatal(err)
	}
	f.Add(signed.Bytes())
	f.Add([]byte{0x1f, 0x8b, 8})
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := bundle.NewArchive(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		_ = a.Verify(t.Context())
		if _, err := a.VerifySignature(); err == nil && a.Index.Kind == bundle.KindPackage {
			t.Error("trusted without a key")
		}
	})
}
