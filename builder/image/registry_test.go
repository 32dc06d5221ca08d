package image_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/image"
	"github.com/sealift/sealift/builder/mirror"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/testing/faultyregistry"
)

// upstream is the registry that the references in these tests name; a mirror leads to the test's own.
const upstream = "registry.example.io"

// testRegistry is a registry to which tests push images.
type testRegistry struct{ *faultyregistry.Registry }

func newRegistry(t *testing.T) testRegistry {
	t.Helper()
	return testRegistry{faultyregistry.New(t)}
}

// answer is the registry's own response.
func (r testRegistry) answer(req *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	r.Inner.ServeHTTP(rec, req)
	return rec
}

func (r testRegistry) place(t *testing.T, repoAndTag string) name.Reference {
	t.Helper()
	ref, err := name.ParseReference(r.Host + "/" + repoAndTag)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func (r testRegistry) pushImage(t *testing.T, repoAndTag string, img v1.Image) string {
	t.Helper()
	if err := remote.Write(r.place(t, repoAndTag), img); err != nil {
		t.Fatal(err)
	}
	return digestOf(t, img)
}

func (r testRegistry) pushIndex(t *testing.T, repoAndTag string, index v1.ImageIndex) string {
	t.Helper()
	if err := remote.WriteIndex(r.place(t, repoAndTag), index); err != nil {
		t.Fatal(err)
	}
	return digestOf(t, index)
}

func digestOf(t *testing.T, thing interface{ Digest() (v1.Hash, error) }) string {
	t.Helper()
	hash, err := thing.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return hash.String()
}

// newImage is an image for a platform with layers of random content.
func newImage(t *testing.T, os, arch string, layers int) v1.Image {
	t.Helper()
	img, err := random.Image(3000, int64(layers))
	if err != nil {
		t.Fatal(err)
	}
	return withPlatform(t, img, os, arch)
}

func withPlatform(t *testing.T, img v1.Image, os, arch string) v1.Image {
	t.Helper()
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config.OS, config.Architecture = os, arch
	img, err = mutate.ConfigFile(img, config)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// newIndex is an OCI index of images, each for the platform that its configuration names.
func newIndex(t *testing.T, images ...v1.Image) v1.ImageIndex {
	t.Helper()
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, img := range images {
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: config.OS, Architecture: config.Architecture}},
		})
	}
	return index
}

// bench is a source with its cache.
type bench struct {
	*image.Source
	cache *cache.Cache
}

func newBench(t *testing.T, r testRegistry) bench {
	t.Helper()
	c, err := cache.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return sourceOn(t, r, c, nil)
}

func sourceOn(t *testing.T, r testRegistry, c *cache.Cache, keychain authn.Keychain) bench {
	t.Helper()
	mirrors, err := mirror.New(map[string]string{upstream: r.Host + "/mirrored", "docker.io": r.Host + "/hub"})
	if err != nil {
		t.Fatal(err)
	}
	retry := fetch.Retry{Attempts: 3, Wait: time.Millisecond}
	return bench{image.NewSource(image.Options{
		Cache: c, Fetcher: fetch.New(c, retry, nil), Mirrors: mirrors, Retry: retry, Keychain: keychain,
	}), c}
}

// resolve resolves an image of the upstream registry.
func (b bench) resolve(t *testing.T, ref string, platforms ...string) (image.Resolved, error) {
	t.Helper()
	return b.resolveExactly(t, upstream+"/"+ref, platforms...)
}

func (b bench) resolveExactly(t *testing.T, ref string, platforms ...string) (image.Resolved, error) {
	t.Helper()
	parsed, err := image.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	if len(platforms) == 0 {
		platforms = []string{"linux/amd64"}
	}
	return b.Resolve(t.Context(), parsed, platforms)
}

// pull resolves and fetches.
func (b bench) pull(t *testing.T, ref string, platforms ...string) image.Resolved {
	t.Helper()
	r, err := b.resolve(t, ref, platforms...)
	if err == nil {
		err = b.fetchAll(t, r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func exists(dir, digest string) bool {
	_, err := os.Stat(filepath.Join(dir, "blobs/sha256", strings.TrimPrefix(digest, "sha256:")))
	return err == nil
}

func (b bench) fetchAll(t *testing.T, r image.Resolved) error {
	t.Helper()
	for _, d := range r.Blobs() {
		if _, err := b.Fetch(t.Context(), r, d); err != nil {
			return err
		}
	}
	return nil
}

// unpack writes a layout to disk and returns its directory.
func (b bench) unpack(t *testing.T, images ...image.Resolved) string {
	t.Helper()
	files, err := image.Layout("images", images, b.cache)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	seen := make(map[string]bool)
	for _, f := range files {
		if seen[f.Path] {
			t.Errorf("%s is there twice", f.Path)
		}
		seen[f.Path] = true
		if err := writeFile(filepath.Join(dir, f.Path), f); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "images")
}

func writeFile(path string, f bundle.File) error {
	content, err := f.Open()
	if err != nil {
		return err
	}
	defer content.Close()
	data, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	if int64(len(data)) != f.Size {
		return fmt.Errorf("%s has %d bytes, %d were promised", f.Path, len(data), f.Size)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}
