package builder_test

import (
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/config"
	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/internal/testing/realregistry"
	"github.com/sealift/sealift/testgrid/lab/debian"
)

// world is the environment of a build: a real registry and a file server on loopback, and Debian's archive.
type world struct {
	registry string // host:port
	files    string // directory that https://files.example.com/ is served from
	config   string // path of the sealift.yaml that leads there

	fileServer string // URL
	targets    []string
}

// newWorld makes a world with the given targets; without any, the built-in ones.
func newWorld(t *testing.T, targets ...string) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{targets: targets, files: filepath.Join(dir, "files"), config: filepath.Join(dir, "sealift.yaml")}
	if err := os.Mkdir(w.files, 0o755); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(w.files)))
	t.Cleanup(server.Close)
	w.fileServer = server.URL
	data := filepath.Join(dir, "registry")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	w.registry = realregistry.StartIn(t, data)
	machine, err := debian.Machine()
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, w.config, fmt.Sprintf(`defaultTargets: [debian-12, debian-13]
mirrors:
  registry.example.io: %s/mirrored
  https://files.example.com/: %s/
  http://ftp.debian.org/debian: %s
  http://ftp.debian.org/debian-security: %s
`, w.registry, server.URL, machine.Main, machine.Security))
	return w
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// push puts an image with an index into the registry, as registry.example.io/<name>, and returns the index's digest.
func (w *world) push(t *testing.T, repoAndTag string, layers ...v1.Layer) string {
	t.Helper()
	base := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	img, err := mutate.AppendLayers(base, layers...)
	if err != nil {
		t.Fatal(err)
	}
	img = mutate.ConfigMediaType(img, types.OCIConfigJSON)
	platform := &v1.Platform{OS: "linux", Architecture: "amd64"}
	if img, err = mutate.ConfigFile(img, &v1.ConfigFile{OS: platform.OS, Architecture: platform.Architecture, RootFS: rootFS(t, img)}); err != nil {
		t.Fatal(err)
	}
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex),
		mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: platform}})
	ref, err := name.ParseReference(w.registry + "/mirrored/" + repoAndTag)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(ref, index); err != nil {
		t.Fatal(err)
	}
	hash, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return hash.String()
}

// publish puts a file under https://files.example.com/. It is an hour old, so that its date identifies its content.
func (w *world) publish(t *testing.T, path, content string) {
	t.Helper()
	path = filepath.Join(w.files, path)
	writeFile(t, path, content)
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
}

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

func rootFS(t *testing.T, img v1.Image) v1.RootFS {
	t.Helper()
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return config.RootFS
}

// layer is a layer of size bytes, the same for the same seed. Of gzip, it has only the first bytes.
func layer(seed byte, size int) v1.Layer {
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(data)
	copy(data, "\x1f\x8b\x08")
	return static.NewLayer(data, types.OCILayer)
}

// addOn makes an add-on directory <name>/1.0 with a Manifest.
func addOn(t *testing.T, name, manifest string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name, "1.0")
	writeFile(t, filepath.Join(dir, "Manifest"), manifest)
	writeFile(t, filepath.Join(dir, "install.sh"), "function "+name+"() { :; }\n")
	return dir
}

func openCache(t *testing.T) *cache.Cache {
	t.Helper()
	return cacheAt(t, filepath.Join(t.TempDir(), "cache"))
}

func cacheAt(t *testing.T, dir string) *cache.Cache {
	t.Helper()
	c, err := cache.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (w *world) builder(t *testing.T, c *cache.Cache, jobs int) *builder.Builder {
	t.Helper()
	settings, err := config.Load(w.config)
	if err != nil {
		t.Fatal(err)
	}
	b, err := builder.New(c, builder.Options{Config: settings, Targets: w.targets, Jobs: jobs, Retry: fetch.Retry{Attempts: 2, Wait: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func build(t *testing.T, b *builder.Builder, dir string) builder.Result {
	t.Helper()
	r, err := b.Build(t.Context(), dir, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// assertEmpty checks that a failed build left nothing in its output directory.
func assertEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
