package builder_test

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/diag"
)

// busyboxLayer is a layer with a shell and the tools to write files.
func busyboxLayer(t *testing.T, extra string) v1.Layer {
	t.Helper()
	program, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatalf("%v; apt-get install busybox-static", err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, file := range []struct {
		header tar.Header
		data   []byte
	}{
		{tar.Header{Name: "bin/", Mode: 0o755, Typeflag: tar.TypeDir}, nil},
		{tar.Header{Name: "tmp/", Mode: 0o1777, Typeflag: tar.TypeDir}, nil},
		{tar.Header{Name: "bin/busybox", Mode: 0o755, Size: int64(len(program))}, program},
		{tar.Header{Name: "bin/sh", Typeflag: tar.TypeSymlink, Linkname: "busybox"}, nil},
		{tar.Header{Name: "bin/mkdir", Typeflag: tar.TypeSymlink, Linkname: "busybox"}, nil},
		{tar.Header{Name: "bin/cp", Typeflag: tar.TypeSymlink, Linkname: "busybox"}, nil},
		{tar.Header{Name: "release", Mode: 0o644, Size: int64(len(extra))}, []byte(extra)},
	} {
		if err := w.WriteHeader(&file.header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(file.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		t.Fatal(err)
	}
	return layer
}

func TestDockeroutRunsDockerfilesOfRepository(t *testing.T) {
	if _, err := exec.LookPath("buildah"); err != nil {
		t.Fatalf("%v; apt-get install buildah", err)
	}
	// Overlay file systems and namespaces may be missing here, as in a container.
	t.Setenv("STORAGE_DRIVER", "vfs")
	t.Setenv("BUILDAH_ISOLATION", "chroot")
	w := newWorld(t, "debian-12")
	w.push(t, "base:9", busyboxLayer(t, "first"))
	repository := t.TempDir()
	dir := filepath.Join(repository, "addons", "demo", "1.0")
	writeFile(t, filepath.Join(dir, "Manifest"), `dockerout debian-12 addons/demo/template/Dockerfile 1.6.33
dockerout rhel-7-force addons/demo/template/Dockerfile 1.6.33
`)
	writeFile(t, filepath.Join(dir, "install.sh"), "function demo() { :; }\n")
	writeFile(t, filepath.Join(repository, "addons/demo/template/Dockerfile"), `FROM registry.example.io/base:9
ARG VERSION
RUN /bin/mkdir /made && echo $VERSION $(/bin/busybox cat /release) > /made/tool.deb
CMD /bin/cp /made/* /out/
`)
	c := openCache(t)
	b := w.builder(t, c, 2)
	first := build(t, b, dir)
	if !slices.ContainsFunc(first.Warnings, func(f diag.Finding) bool { return strings.Contains(f.Message, "rhel-7-force is left out") }) {
		t.Errorf("warnings: %v", first.Warnings)
	}
	a, err := bundle.Open(first.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }()
	if data, err := a.ReadFile("addons/demo/1.0/debian-12/tool.deb", 1000); err != nil || string(data) != "1.6.33 first\n" {
		t.Errorf("the file in the package is %q, %v", data, err)
	}
	lockAddOn(t, b, dir, builder.LockMissing)
	w.push(t, "base:9", busyboxLayer(t, "second"))
	t.Run("a locked build takes the base image of then", func(t *testing.T) {
		if again := build(t, w.builder(t, c, 2), dir); again.SHA256 != first.SHA256 {
			t.Errorf("built %s, not %s", again.SHA256, first.SHA256)
		}
	})
	t.Run("and another when the lock is brought up to date", func(t *testing.T) {
		locked := lockAddOn(t, w.builder(t, c, 2), dir, builder.LockUpdate)
		if len(locked.Changes) != 2 { // the index and its manifest
			t.Errorf("changes: %v", locked.Changes)
		}
		if again := build(t, w.builder(t, c, 2), dir); again.SHA256 == first.SHA256 {
			t.Error("the package is the same")
		}
	})
	t.Run("a Dockerfile that is not there is named with its directive", func(t *testing.T) {
		writeFile(t, filepath.Join(dir, "Manifest"), "dockerout debian-12 Dockerfile.none 1\n")
		_, err := w.builder(t, c, 2).Build(t.Context(), dir, t.TempDir())
		if err == nil || !strings.Contains(err.Error(), "Manifest:1:1: error: Dockerfile.none:") || !strings.Contains(err.Error(), "relative to the root of the repository") {
			t.Errorf("got %v", err)
		}
	})
}
