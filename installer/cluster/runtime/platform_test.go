package runtime_test

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/fetch"
	images "github.com/sealift/sealift/builder/image"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster/runtime"
)

// built builds the package of an image that a registry has as an index, as 'sealift build' does, and a bundle of it.
func built(t *testing.T, index v1.ImageIndex) (*bundle.Archive, error) {
	t.Helper()
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	at, err := name.ParseReference(strings.TrimPrefix(s.URL, "http://") + "/app:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(at, index); err != nil {
		t.Fatal(err)
	}
	c, err := cache.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	source := images.NewSource(images.Options{Cache: c, Fetcher: fetch.New(c, fetch.Retry{Attempts: 1}, nil)})
	ref, err := images.ParseReference(at.Name())
	if err != nil {
		t.Fatal(err)
	}
	resolved, err := source.Resolve(t.Context(), ref, []string{"linux/amd64"})
	if err != nil {
		return nil, err
	}
	for _, d := range resolved.Blobs() {
		if _, err := source.Fetch(t.Context(), resolved, d); err != nil {
			t.Fatal(err)
		}
	}
	p := bundle.Package{Name: "demo", Version: "1.0.0", Platforms: []string{"linux/amd64"}}
	if p.Files, err = images.Layout(dir, []images.Resolved{resolved}, c); err != nil {
		t.Fatal(err)
	}
	var packed, bundled bytes.Buffer
	if _, err := bundle.WritePackage(t.Context(), &packed, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	one, err := bundle.NewArchive(bytes.NewReader(packed.Bytes()), int64(packed.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bundle.WriteBundle(t.Context(), &bundled, bundle.Bundle{Packages: []*bundle.Archive{one}}); err != nil {
		t.Fatal(err)
	}
	both, err := bundle.NewArchive(bytes.NewReader(bundled.Bytes()), int64(bundled.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if err := both.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	return both, nil
}

// listed appends an image to an index under a platform, "" for none.
func listed(index v1.ImageIndex, add mutate.Appendable, platform string) v1.ImageIndex {
	var d v1.Descriptor
	if platform != "" {
		d.Platform, _ = v1.ParsePlatform(platform)
	}
	return mutate.AppendManifests(index, mutate.IndexAddendum{Add: add, Descriptor: d})
}

// TestNodeLoadsBuiltImages builds, bundles and loads into a real containerd. AlmaLinux/container-images#71 is the first.
func TestNodeLoadsBuiltImages(t *testing.T) {
	r := connect(t)
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	amd := image(t, 1)
	tiny := amd
	for _, text := range []string{"", "x"} {
		var err error
		if tiny, err = mutate.AppendLayers(tiny, static.NewLayer([]byte(text), "application/vnd.example")); err != nil {
			t.Fatal(err)
		}
	}
	empties, err := mutate.AppendLayers(amd, static.NewLayer(nil, types.OCIUncompressedLayer))
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		index v1.ImageIndex
		want  string // of the build's error
	}{
		"a variant before the plain image": {listed(listed(index, image(t, 1), "linux/amd64/v2"), amd, "linux/amd64"), ""},
		"a variant alone":                  {listed(index, amd, "linux/amd64/v2"), "only for linux/amd64/v2"},
		"no platform":                      {listed(index, amd, ""), ""},
		"an index in an index":             {listed(index, listed(index, amd, "linux/amd64"), ""), ""},
		"an index with a platform":         {listed(index, listed(index, amd, "linux/amd64"), "linux/amd64"), ""},
		"32 bits":                          {listed(index, configured(t, amd, "386"), "linux/386"), ""},
		"an attestation":                   {listed(listed(index, image(t, 1), "unknown/unknown"), amd, "linux/amd64"), ""},
		"an empty layer":                   {listed(index, empties, "linux/amd64"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := built(t, row.index)
			if row.want != "" {
				if err == nil || !strings.Contains(err.Error(), row.want) {
					t.Errorf("built: %v, want %q", err, row.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := runtime.UnpackedSize(openLayout(t, a)); err != nil {
				t.Error(err)
			}
			for _, want := range []runtime.Result{{Loaded: 1}, {Present: 1}} {
				if got, err := r.Load(t.Context(), openLayout(t, a), func(string) {}); err != nil || got != want {
					t.Errorf("%+v, %v; want %+v", got, err, want)
				}
			}
		})
	}
	t.Run("blobs of no and of one byte", func(t *testing.T) { // no image, but no reason to refuse the bundle
		a, err := built(t, listed(index, tiny, "linux/amd64"))
		if err != nil {
			t.Fatal(err)
		}
		if size, err := runtime.UnpackedSize(openLayout(t, a)); err != nil || size == 0 {
			t.Errorf("%d bytes, %v", size, err)
		}
	})
}

// configured is an image for another architecture.
func configured(t *testing.T, img v1.Image, arch string) v1.Image {
	t.Helper()
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.Architecture = arch
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	return img
}
