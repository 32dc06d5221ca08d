package runtime_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/delta"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/internal/testing/containerd"
)

// installedImages is a node: containerd has the blobs of images, and its disk the other files.
type installedImages struct {
	t     *testing.T
	r     *runtime.Runtime
	files *bundle.Archive
}

func (n installedImages) Open(e bundle.Entry) (io.ReadCloser, error) {
	if !strings.Contains(e.Path, "/blobs/") {
		return n.files.OpenEntry(e.Path)
	}
	blob, err := n.r.Blob(n.t.Context(), e.SHA256)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(blob, 0, blob.Size()), blob}, nil
}

func (installedImages) Close() error { return nil }

// TestPatchedLayerIsMadeOfContainerdsBlob upgrades an image whose layer comes as a patch, and reads the program in it.
func TestPatchedLayerIsMadeOfContainerdsBlob(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	tool := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{5}).Read(tool)
	with := func(ref string, content []byte) *bundle.Archive {
		img, err := mutate.AppendLayers(image(t, 1), layerOf(t, "usr/local/bin/tool", string(content)))
		if err != nil {
			t.Fatal(err)
		}
		return archive(t, map[string]v1.Image{ref: img})
	}
	first := with(leanRef, tool)
	newer := bytes.Join([][]byte{tool[:300_000], []byte("a new function"), tool[300_000:]}, nil)
	newer[700_000]++
	second := with("registry.k8s.io/tools:2", newer)

	c := containerd.StartForTest(t)
	r, err := runtime.Connect(t.Context(), c.Socket)
	if err != nil {
		t.Fatal(err)
	}
	wantLoad(t, r, first, runtime.Result{Loaded: 1})
	old := assembled(t, bundle.Bundle{Packages: []*bundle.Archive{first}})
	e := delta.Earlier{Archives: []*bundle.Archive{first}, Since: bundle.SinceInstalled(old.Digest, []bundle.InstalledPackage{{Archive: first}}), Spool: delta.NewSpool(t.TempDir())}
	set, err := e.Make(t.Context(), []*bundle.Archive{second}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := assembled(t, bundle.Bundle{Packages: []*bundle.Archive{second}, Since: e.Since, Members: set.Members, Patched: set.Entries})
	if err := a.WithInstalled(installedImages{t, r, old}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.Verify(t.Context()), set.Close()); err != nil {
		t.Fatal(err)
	}
	layer := leanEntry(t, a)
	if layer.Encoding != bundle.Patched {
		t.Fatalf("the layer is carried as %s", layer.Encoding)
	}
	wantLoad(t, r, a, runtime.Result{Loaded: 1})
	if !has(t, r, layer.Layer.DiffID) || has(t, r, layer.Layer.Blob) {
		t.Error("containerd does not have the unpacked layer alone")
	}
	if err := errors.Join(r.Close(), a.Close(), c.Restart(t.Context())); err != nil {
		t.Fatal(err)
	}
	if r, err = runtime.Connect(t.Context(), c.Socket); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	to := filepath.Join(t.TempDir(), "tool")
	if err := r.Program(t.Context(), "registry.k8s.io/tools:2", "/usr/local/bin/tool", to); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, newer) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
