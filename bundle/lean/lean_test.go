package lean_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/lean"
	"github.com/sealift/sealift/bundle/ocilayout"
)

const images = "addons/demo/1.0.0/images"

// text is a layer's content that zstd compresses better than gzip: it repeats after more bytes than gzip's window.
func text(seed byte) []byte {
	block := make([]byte, 300_000)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(block)
	return bytes.Repeat(block, 5)
}

func gzipLayer(t *testing.T, content []byte) v1.Layer {
	t.Helper()
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func imageOf(t *testing.T, layers ...v1.Layer) v1.Image {
	t.Helper()
	image, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// layoutOf returns the files of a layout with images, as a package has them.
func layoutOf(t *testing.T, list ...v1.Image) []bundle.File {
	t.Helper()
	folder := t.TempDir()
	oci, err := layout.Write(folder, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range list {
		index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: image})
		if err := oci.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "example.org/app:1"})); err != nil {
			t.Fatal(err)
		}
	}
	var files []bundle.File
	err = fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		f, err := bundle.DiskFile(path.Join(images, name), 0o644, filepath.Join(folder, name))
		files = append(files, f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func packaged(t *testing.T, files []bundle.File) *bundle.Archive {
	t.Helper()
	var buf bytes.Buffer
	p := bundle.Package{Name: "demo", Version: "1.0.0", Platforms: []string{"linux/amd64"}, Files: files}
	if _, err := bundle.WritePackage(t.Context(), &buf, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	a, err := bundle.NewArchive(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func leanFiles(files []bundle.File) (lean []bundle.File) {
	return slices.DeleteFunc(slices.Clone(files), func(f bundle.File) bool { return f.Layer == nil })
}

func TestEachLayerIsCompressedOnce(t *testing.T) {
	content := text(1)
	one, small := gzipLayer(t, content), gzipLayer(t, []byte("small"))
	plain := static.NewLayer(text(2), types.OCIUncompressedLayer)
	files := layoutOf(t, imageOf(t, one, small), imageOf(t, one, plain))
	spool := t.TempDir()
	made, err := lean.Files(t.Context(), images, files, spool)
	if err != nil {
		t.Fatal(err)
	}
	if len(made) != len(files) || len(leanFiles(made)) != 2 {
		t.Fatalf("%d of %d files are lean, had %d", len(leanFiles(made)), len(made), len(files))
	}
	id, err := one.DiffID()
	if err != nil {
		t.Fatal(err)
	}
	blob, err := partial.Descriptor(one)
	if err != nil {
		t.Fatal(err)
	}
	found := slices.IndexFunc(made, func(f bundle.File) bool { return f.Layer != nil && f.Layer.Blob == blob.Digest.Hex })
	if found < 0 || made[found].Layer.DiffID != id.Hex || made[found].Layer.Size != int64(len(content)) || made[found].Size >= blob.Size {
		t.Fatalf("%+v", made)
	}
	if err := packaged(t, made).VerifyLayers(t.Context()); err != nil {
		t.Error(err)
	}

	before := modified(t, spool)
	again, err := lean.Files(t.Context(), images, files, spool)
	if err != nil || !slices.Equal(modified(t, spool), before) || again[found].SHA256 != made[found].SHA256 {
		t.Errorf("compressed again: %v", err)
	}
	damaged := filepath.Join(spool, blob.Digest.Hex+".lean-1")
	if err := os.WriteFile(damaged, []byte("damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	again, err = lean.Files(t.Context(), images, files, spool)
	if err != nil || again[found].SHA256 != made[found].SHA256 {
		t.Fatalf("from a damaged spool: %v", err)
	}
	if err := packaged(t, again).Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// modified lists the files of a folder with their times.
func modified(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e.Name()+info.ModTime().String())
	}
	return list
}

func TestLayerUnlikeItsConfigurationIsRefused(t *testing.T) {
	image := imageOf(t, gzipLayer(t, text(1)))
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.RootFS.DiffIDs[0].Hex = strings.Repeat("0", 64)
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	if _, err := lean.Files(t.Context(), images, layoutOf(t, image), t.TempDir()); err == nil || !strings.Contains(err.Error(), "cannot be loaded") {
		t.Errorf("%v", err)
	}
}

// TestForeignLayersAreNamed has bundles whose index says that a layer of somebody else is the lean form of an image's.
func TestForeignLayersAreNamed(t *testing.T) {
	files := layoutOf(t, imageOf(t, gzipLayer(t, text(1))))
	made, err := lean.Files(t.Context(), images, files, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	others, err := lean.Files(t.Context(), images, layoutOf(t, imageOf(t, gzipLayer(t, text(2)))), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := ocilayout.CheckForms(packaged(t, made)); err != nil {
		t.Error(err)
	}
	foreign := leanFiles(others)[0]
	for blob, want := range map[string]string{leanFiles(made)[0].Layer.Blob: "unpacks to another layer", foreign.Layer.Blob: "no image of the package has"} {
		layer := *foreign.Layer
		layer.Blob = blob
		forged := foreign
		forged.Layer = &layer
		a := packaged(t, append(slices.DeleteFunc(slices.Clone(made), func(f bundle.File) bool { return f.Layer != nil }), forged))
		if err := errors.Join(a.Verify(t.Context()), a.VerifyLayers(t.Context())); err != nil {
			t.Fatal(err)
		}
		if err := ocilayout.CheckForms(a); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), forged.Path) {
			t.Errorf("%v, want %q", err, want)
		}
		folder, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lean.Extract(t.Context(), a, folder); err == nil {
			t.Error("extracted")
		}
		if err := folder.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestCompanionReplacesLayersOfPackage(t *testing.T) {
	files := layoutOf(t, imageOf(t, gzipLayer(t, text(1))))
	plain, spool := packaged(t, files), t.TempDir()
	var with [2]*bundle.Archive
	for n := range with {
		var err error
		if with[n], err = lean.NewSpool(spool).Companion(t.Context(), plain); err != nil || with[n] == nil {
			t.Fatal(err)
		}
		defer with[n].Close()
	}
	if with[0].Digest != with[1].Digest {
		t.Error("the second companion has other content")
	}
	var buf bytes.Buffer
	index, err := bundle.WriteBundle(t.Context(), &buf, bundle.Bundle{Packages: []*bundle.Archive{plain}, Lean: with[:1]})
	if err != nil || index.Format != bundle.FormatLean {
		t.Fatalf("%s, %v", index.Format, err)
	}
	made, err := bundle.NewArchive(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(made.Verify(t.Context()), made.VerifyLayers(t.Context())); err != nil {
		t.Error(err)
	}

	none, err := lean.NewSpool(spool).Companion(t.Context(), packaged(t, layoutOf(t, imageOf(t, gzipLayer(t, []byte("small"))))))
	if err != nil || none != nil {
		t.Errorf("a package of small layers has a companion: %v", err)
	}
}

// TestExtractedLayoutIsRead lets another library read what Extract writes, of a lean and of a plain package.
func TestExtractedLayoutIsRead(t *testing.T) {
	one := gzipLayer(t, text(1))
	image := imageOf(t, one, gzipLayer(t, []byte("small")))
	files := layoutOf(t, image)
	made, err := lean.Files(t.Context(), images, files, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	blob, err := one.Digest()
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		files   []bundle.File
		changed int
	}{"plain": {files, 0}, "lean": {made, 1}} {
		dir := t.TempDir()
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		list, err := lean.Extract(t.Context(), packaged(t, row.files), root)
		if err := errors.Join(err, root.Close()); err != nil || len(list) != 1 {
			t.Fatalf("%s: %+v, %v", name, list, err)
		}
		if list[0].Ref != "example.org/app:1" || len(list[0].Layers) != row.changed || (list[0].Original != "") != (row.changed > 0) {
			t.Errorf("%s: %+v", name, list[0])
		}
		for _, l := range list[0].Layers {
			if l.Original != blob.String() {
				t.Errorf("%s: %+v", name, l)
			}
		}
		index, err := layout.ImageIndexFromPath(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Index(index, validate.Fast); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "blobs/sha256", blob.Hex)); (err == nil) != (row.changed == 0) {
			t.Errorf("%s: the plain layer: %v", name, err)
		}
	}
}

// TestEachFlippedByteIsNamed flips one byte of a lean bundle at a time, between its first and its last.
func TestEachFlippedByteIsNamed(t *testing.T) {
	files := layoutOf(t, imageOf(t, gzipLayer(t, text(1)), gzipLayer(t, text(2))))
	plain := packaged(t, files)
	companion, err := lean.NewSpool(t.TempDir()).Companion(t.Context(), plain)
	if err != nil {
		t.Fatal(err)
	}
	defer companion.Close()
	var buf bytes.Buffer
	if _, err := bundle.WriteBundle(t.Context(), &buf, bundle.Bundle{Packages: []*bundle.Archive{plain}, Lean: []*bundle.Archive{companion}}); err != nil {
		t.Fatal(err)
	}
	data := buf.Bytes()
	whole, err := bundle.NewArchive(bytes.NewReader(data), int64(len(data)))
	if err != nil || whole.Verify(t.Context()) != nil {
		t.Fatal(err)
	}
	const flips = 40
	layers := 0
	for n := range flips {
		at := n * (len(data) - 1) / (flips - 1)
		data[at] ^= 1
		a, err := bundle.NewArchive(bytes.NewReader(data), int64(len(data)))
		if err == nil {
			err = a.Verify(t.Context())
		}
		if err == nil {
			t.Errorf("byte %d of %d: not found", at, len(data))
		}
		for _, e := range leanEntries(whole) {
			if damaged, ok := errors.AsType[*bundle.DigestError](err); ok && damaged.Path == e.Path {
				layers++
				if _, err := a.ReadFile(e.Path, e.Size); err == nil {
					t.Errorf("byte %d: %s is read all the same", at, e.Path)
				}
				if err := a.VerifyLayers(t.Context()); err == nil || !strings.Contains(err.Error(), e.Path) {
					t.Errorf("byte %d: unpacking %s: %v", at, e.Path, err)
				}
			}
		}
		data[at] ^= 1
	}
	if layers < flips/2 {
		t.Errorf("only %d of %d flips are named as one of a lean layer", layers, flips)
	}
}

func leanEntries(a *bundle.Archive) (list []bundle.Entry) {
	for _, e := range a.Index.Entries {
		if e.Layer != nil {
			list = append(list, e)
		}
	}
	return list
}
