package runtime_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/internal/testing/containerd"
)

// connect connects to a containerd of the test's own.
func connect(t *testing.T) *runtime.Runtime {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := runtime.Connect(ctx, containerd.ForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

const dir = "addons/demo/1.0.0/images"

func archive(t *testing.T, images map[string]v1.Image) *bundle.Archive {
	t.Helper()
	data := pack(t, images)
	a, err := bundle.NewArchive(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// pack packs images, by reference, into a package.
func pack(t *testing.T, images map[string]v1.Image) []byte {
	t.Helper()
	folder := t.TempDir()
	oci, err := layout.Write(folder, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	for ref, image := range images {
		// as in a registry: the tag is an index, of which only one platform is present
		index := mutate.IndexMediaType(mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}}), "application/vnd.oci.image.index.v1+json")
		if err := oci.AppendIndex(index, layout.WithAnnotations(map[string]string{ocispec.AnnotationRefName: ref})); err != nil {
			t.Fatal(err)
		}
	}
	p := bundle.Package{Name: "demo", Version: "1.0.0", Platforms: []string{"linux/amd64"}}
	err = fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, err := bundle.DiskFile(path.Join(dir, name), 0o644, filepath.Join(folder, name))
		p.Files = append(p.Files, file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if _, err := bundle.WritePackage(t.Context(), &buf, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func image(t *testing.T, layers int64) v1.Image {
	t.Helper()
	return imageOf(t, 100_000, layers)
}

// imageOf has layers of some size.
func imageOf(t *testing.T, size, layers int64) v1.Image {
	t.Helper()
	made, err := random.Image(size, layers)
	if err != nil {
		t.Fatal(err)
	}
	config, err := made.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config.OS, config.Architecture = "linux", "amd64"
	made, err = mutate.ConfigFile(made, config)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func openLayout(t *testing.T, a *bundle.Archive) *runtime.Layout {
	t.Helper()
	l, err := runtime.OpenLayout(a, dir)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestImagesAreLoadedOnce(t *testing.T) {
	r := connect(t)
	a := archive(t, map[string]v1.Image{"example.org/one:1": image(t, 3), "example.org:5000/two:2": image(t, 1)})
	for n, want := range []runtime.Result{{Loaded: 2}, {Present: 2}} {
		var loading []string
		got, err := r.Load(t.Context(), openLayout(t, a), func(ref string) { loading = append(loading, ref) })
		if err != nil || got != want || len(loading) != want.Loaded {
			t.Errorf("load %d: %+v (%v), %v; want %+v", n+1, got, loading, err, want)
		}
	}
}

func TestMovedTagIsReloaded(t *testing.T) {
	r := connect(t)
	for range 2 {
		a := archive(t, map[string]v1.Image{"example.org/one:1": image(t, 1)})
		if got, err := r.Load(t.Context(), openLayout(t, a), func(string) {}); err != nil || got.Loaded != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

func TestDamagedLayerIsRefused(t *testing.T) {
	r := connect(t)
	a := archive(t, map[string]v1.Image{"example.org/one:1": image(t, 1)})
	var largest bundle.Entry
	for _, e := range a.Index.Entries {
		if e.Size > largest.Size {
			largest = e
		}
	}
	unpacked := t.TempDir()
	root, err := os.OpenRoot(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Extract(t.Context(), root, func(bundle.Entry) bool { return true }); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(unpacked, filepath.FromSlash(largest.Path))
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	packed := bundleOf(t, a)
	if err := os.WriteFile(filepath.Join(unpacked, bundle.IndexName), packed, 0o600); err != nil {
		t.Fatal(err)
	}
	damaged, err := bundle.Open(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	defer damaged.Close()
	if _, err := r.Load(t.Context(), openLayout(t, damaged), func(string) {}); err == nil || !strings.Contains(err.Error(), "sha256") {
		t.Errorf("got %v", err)
	}
}

// bundleOf returns the index of a bundle with one package.
func bundleOf(t *testing.T, a *bundle.Archive) []byte {
	t.Helper()
	var buf bytes.Buffer
	if _, err := bundle.WriteBundle(t.Context(), &buf, bundle.Bundle{Packages: []*bundle.Archive{a}}); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "tar", "xzf", "-", "-C", folder)
	cmd.Stdin = &buf
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	index, err := os.ReadFile(filepath.Join(folder, bundle.IndexName))
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func TestUnpackedSizeCountsSharedLayersOnce(t *testing.T) {
	shared := image(t, 2)
	one := openLayout(t, archive(t, map[string]v1.Image{"example.org/one:1": shared}))
	two := openLayout(t, archive(t, map[string]v1.Image{"example.org/two:1": shared}))
	alone, err := runtime.UnpackedSize(one)
	if err != nil {
		t.Fatal(err)
	}
	both, err := runtime.UnpackedSize(one, two)
	if err != nil || both > alone+10_000 || alone < 2*100_000 {
		t.Errorf("one layout %d bytes, two with the same layers %d, %v", alone, both, err)
	}
}

func TestFolderWithoutImagesIsEmptyLayout(t *testing.T) {
	a := archive(t, map[string]v1.Image{"example.org/one:1": image(t, 1)})
	if l, err := runtime.OpenLayout(a, "addons/demo/1.0.0/nothing"); err != nil || len(l.Images) != 0 {
		t.Errorf("%+v, %v", l, err)
	}
}
