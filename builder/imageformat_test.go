package builder_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/builder/config"
	"github.com/sealift/sealift/bundle"
)

func (w *world) dockerArchives(t *testing.T, o builder.Options) *builder.Builder {
	t.Helper()
	var err error
	if o.Config, err = config.Load(w.config); err != nil {
		t.Fatal(err)
	}
	o.ImageFormat = builder.DockerArchive
	b, err := builder.New(openCache(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestImagesArePackedAsDockerArchives(t *testing.T) {
	w := newWorld(t, "debian-12")
	shared := gzipLayer(t, 1)
	w.push(t, "one:1", shared)
	w.push(t, "two:1", shared, gzipLayer(t, 2))
	dir := addOn(t, "demo", "image one registry.example.io/one:1\nimage two registry.example.io/two:1\n")
	first := build(t, w.dockerArchives(t, builder.Options{Jobs: 1}), dir)
	archive, err := bundle.Open(first.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	var files []string
	for _, e := range archive.Below("addons/demo/1.0/images") {
		files = append(files, filepath.Base(e.Path))
	}
	if got := strings.Join(files, " "); got != "one.tar.gz two.tar.gz" {
		t.Errorf("images are %s", got)
	}
	root := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "tar", "-xzf", first.Path, "-C", root).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v: %s", err, out)
	}
	image := filepath.Join(root, "addons/demo/1.0/images/two.tar.gz")
	if out, err := exec.CommandContext(t.Context(), "tar", "-xzOf", image, "manifest.json").Output(); err != nil || !strings.Contains(string(out), `"RepoTags":["registry.example.io/two:1"]`) {
		t.Errorf("manifest.json is %s, %v", out, err)
	}
	if again := build(t, w.dockerArchives(t, builder.Options{Jobs: 4}), dir); again.SHA256 != first.SHA256 {
		t.Error("another cache and number of jobs give other bytes")
	}
}

func TestPackageOfOtherImageFormatIsRebuilt(t *testing.T) {
	w, c, out := newWorld(t, "debian-12"), openCache(t), t.TempDir()
	w.push(t, "one:1", gzipLayer(t, 1))
	dir := addOn(t, "demo", "image one registry.example.io/one:1\n")
	settings, err := config.Load(w.config)
	if err != nil {
		t.Fatal(err)
	}
	var digests []string
	for _, format := range []builder.ImageFormat{builder.OCILayout, builder.DockerArchive, ""} {
		b, err := builder.New(c, builder.Options{Config: settings, ImageFormat: format})
		if err != nil {
			t.Fatal(err)
		}
		r, err := b.Build(t.Context(), dir, out)
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, r.SHA256)
	}
	if digests[0] == digests[1] || digests[0] != digests[2] {
		t.Errorf("packages as layout, as docker-archives, and by default: %v", digests)
	}
}

func TestUnsupportedImageFormatsAreRefused(t *testing.T) {
	for name, row := range map[string]struct {
		options builder.Options
		want    string
	}{
		"a format that is not known":        {builder.Options{ImageFormat: "squashfs"}, `image format "squashfs" is not one of [oci lean docker-archive]`},
		"two platforms where one has place": {builder.Options{ImageFormat: builder.DockerArchive, Platforms: []string{"linux/amd64", "linux/arm64"}}, "holds one platform, not 2"},
	} {
		t.Run(name, func(t *testing.T) {
			row.options.Config = config.Default()
			if _, err := builder.New(openCache(t), row.options); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}

// gzipLayer is a layer whose unpacked content differs for each seed.
func gzipLayer(t *testing.T, seed int64) v1.Layer {
	t.Helper()
	l, err := random.Layer(20_000, types.OCILayer, random.WithSource(rand.NewSource(seed)))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestLeanPackageHasLayersCompressedAgain builds the same package from two caches.
func TestLeanPackageHasLayersCompressedAgain(t *testing.T) {
	w := newWorld(t, "debian-12")
	noise := make([]byte, 400_000)
	_, _ = rand.New(rand.NewSource(5)).Read(noise)
	large, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(bytes.Repeat(noise, 4))), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.push(t, "one:1", gzipLayer(t, 1), large)
	dir := addOn(t, "demo", "image one registry.example.io/one:1\n")
	settings, err := config.Load(w.config)
	if err != nil {
		t.Fatal(err)
	}
	var digests []string
	for _, jobs := range []int{1, 4} {
		b, err := builder.New(openCache(t), builder.Options{Config: settings, ImageFormat: builder.Lean, Jobs: jobs})
		if err != nil {
			t.Fatal(err)
		}
		r := build(t, b, dir)
		digests = append(digests, r.SHA256)
		a, err := bundle.Open(r.Path)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		lean := 0
		for _, e := range a.Index.Entries {
			if e.Layer != nil {
				lean++
			}
		}
		if a.Index.Format != bundle.FormatLean || lean != 1 {
			t.Errorf("format %s with %d lean layers", a.Index.Format, lean)
		}
		if err := errors.Join(a.Verify(t.Context()), a.VerifyLayers(t.Context())); err != nil {
			t.Error(err)
		}
		c, err := b.Compare(t.Context(), dir, func(string, string) (*bundle.Archive, error) { return bundle.Open(r.Path) })
		if err != nil || len(c.Changes) > 0 {
			t.Errorf("%v, %v", c.Changes, err)
		}
	}
	if digests[0] != digests[1] {
		t.Error("another cache and number of jobs give other bytes")
	}
}
