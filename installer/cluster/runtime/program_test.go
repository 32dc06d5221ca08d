package runtime_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// layerOf is a layer with one file.
func layerOf(t *testing.T, name, content string) v1.Layer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))})
	if err == nil {
		_, err = w.Write([]byte(content))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	return layer
}

func TestProgramIsCopiedOutOfUppermostLayer(t *testing.T) {
	r := connect(t)
	const ref = "registry.k8s.io/tools:1"
	with, err := mutate.AppendLayers(image(t, 1), layerOf(t, "usr/local/bin/tool", "old"), layerOf(t, "./usr/local/bin/tool", "new"), layerOf(t, "etc/motd", "x"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Load(t.Context(), openLayout(t, archive(t, map[string]v1.Image{ref: with})), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "tool")
	if err := r.Program(t.Context(), ref, "/usr/local/bin/tool", to); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(to)
	if err != nil || string(text) != "new" {
		t.Errorf("%q, %v", text, err)
	}
	if info, err := os.Stat(to); err != nil || info.Mode() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	for _, row := range []struct{ ref, name string }{{ref, "/usr/bin/tool"}, {"registry.k8s.io/none:1", "/usr/local/bin/tool"}} {
		if err := r.Program(t.Context(), row.ref, row.name, to+"2"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of %s: %v", row.name, row.ref, err)
		}
	}
}

func TestStopIgnoresMissingContainers(t *testing.T) {
	if err := connect(t).Stop(t.Context(), []string{"etcd"}); err != nil {
		t.Error(err)
	}
}

func TestProgramIsCopiedOutOfBundle(t *testing.T) {
	const ref = "registry.k8s.io/tools:1"
	with, err := mutate.AppendLayers(image(t, 1), layerOf(t, "usr/local/bin/tool", "old"), layerOf(t, "usr/local/bin/tool", "new"), layerOf(t, "etc/motd", "x"))
	if err != nil {
		t.Fatal(err)
	}
	layout := openLayout(t, archive(t, map[string]v1.Image{ref: with}))
	to := filepath.Join(t.TempDir(), "tool")
	if err := layout.Program(t.Context(), ref, "/usr/local/bin/tool", to); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(to); err != nil || string(text) != "new" {
		t.Errorf("%q, %v", text, err)
	}
	for ref, name := range map[string]string{ref: "/bin/absent", "registry.k8s.io/other:1": "/usr/local/bin/tool"} {
		if err := layout.Program(t.Context(), ref, name, to+"-2"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of %s: %v", name, ref, err)
		}
	}
}
