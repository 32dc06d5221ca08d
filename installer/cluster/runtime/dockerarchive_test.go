package runtime_test

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster/runtime"
)

// dockerArchive packs images, by id, as docker-archives; named is the name of each in the package's index.
func dockerArchive(t *testing.T, named map[string]string, images map[string]v1.Image) *bundle.Archive {
	t.Helper()
	p := bundle.Package{Name: "demo", Version: "1.0.0", Platforms: []string{"linux/amd64"}}
	for id, image := range images {
		var plain, packed bytes.Buffer
		tag, err := name.NewTag("example.org/" + id + ":1")
		if err != nil {
			t.Fatal(err)
		}
		if err := tarball.Write(tag, image, &plain); err != nil {
			t.Fatal(err)
		}
		gz := gzip.NewWriter(&packed)
		if _, err := plain.WriteTo(gz); err != nil {
			t.Fatal(err)
		}
		if err := gz.Close(); err != nil {
			t.Fatal(err)
		}
		p.Files = append(p.Files, bundle.BytesFile(dir+"/"+id+".tar.gz", 0o644, packed.Bytes()))
		if ref := named[id]; ref != "" {
			p.Contents.Images = append(p.Contents.Images, bundle.Image{ID: id, Ref: ref})
		}
	}
	var buf bytes.Buffer
	if _, err := bundle.WritePackage(t.Context(), &buf, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	a, err := bundle.NewArchive(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestDockerArchivesAreLoadedOnce(t *testing.T) {
	r := connect(t)
	digest := "@sha256:" + strings.Repeat("0", 64)
	a := dockerArchive(t, map[string]string{"one": "example.org/one:1", "two": "example.org/two:1" + digest},
		map[string]v1.Image{"one": image(t, 3), "two": image(t, 1)})
	for n, want := range []runtime.Result{{Loaded: 2}, {Present: 2}} {
		got, err := r.Load(t.Context(), openLayout(t, a), func(string) {})
		if err != nil || got != want {
			t.Errorf("load %d: %+v, %v; want %+v", n+1, got, err, want)
		}
	}
	moved := dockerArchive(t, map[string]string{"one": "example.org/one:1"}, map[string]v1.Image{"one": image(t, 1)})
	if got, err := r.Load(t.Context(), openLayout(t, moved), func(string) {}); err != nil || got.Loaded != 1 {
		t.Errorf("another image under the same name: %+v, %v", got, err)
	}
}

func TestUnindexedDockerArchiveIsLoaded(t *testing.T) {
	r := connect(t)
	a := dockerArchive(t, nil, map[string]v1.Image{"own": image(t, 1)})
	if got, err := r.Load(t.Context(), openLayout(t, a), func(string) {}); err != nil || got.Loaded != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestMislabelledDockerArchiveIsRefused(t *testing.T) {
	r := connect(t)
	a := dockerArchive(t, map[string]string{"one": "example.org/other:1"}, map[string]v1.Image{"one": image(t, 1)})
	if _, err := r.Load(t.Context(), openLayout(t, a), func(string) {}); err == nil || !strings.Contains(err.Error(), "no image of that name") {
		t.Errorf("got %v", err)
	}
}

func TestDamagedDockerArchiveIsNotTagged(t *testing.T) {
	r := connect(t)
	named := map[string]string{"one": "example.org/one:1"}
	a := dockerArchive(t, named, map[string]v1.Image{"one": image(t, 1)})
	unpacked := t.TempDir()
	root, err := os.OpenRoot(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := a.Extract(t.Context(), root, func(bundle.Entry) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(unpacked, bundle.IndexName), bundleOf(t, a), 0o600); err != nil {
		t.Fatal(err)
	}
	// another complete archive in its place: only the digest of the index reveals it
	other := dockerArchive(t, named, map[string]v1.Image{"one": image(t, 1)})
	data, err := other.ReadFile(dir+"/one.tar.gz", 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(unpacked, dir, "one.tar.gz"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	damaged, err := bundle.Open(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	defer damaged.Close()
	if _, err := r.Load(t.Context(), openLayout(t, damaged), func(string) {}); err == nil {
		t.Error("another archive than the index says was loaded")
	}
	if got, err := r.Load(t.Context(), openLayout(t, a), func(string) {}); err != nil || got.Loaded != 1 {
		t.Errorf("after the damage: %+v, %v; want the image to be loaded now", got, err)
	}
}

func TestUnpackedSizeCountsDockerArchives(t *testing.T) {
	l := openLayout(t, dockerArchive(t, nil, map[string]v1.Image{"one": image(t, 2)}))
	if size, err := runtime.UnpackedSize(l); err != nil || size < 2*2*100_000 {
		t.Errorf("%d bytes, %v", size, err)
	}
}
