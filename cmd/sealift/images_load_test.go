package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/internal/testing/containerd"
	"github.com/sealift/sealift/internal/testing/imagepackage"
)

// tarLayer is a layer with one file.
func tarLayer(t *testing.T, name, text string) v1.Layer {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestImagesOfPatchedBundleAreLoaded loads the images of a bundle whose layers are in an earlier one, or are patches of layers there.
func TestImagesOfPatchedBundleAreLoaded(t *testing.T) {
	socket := containerd.ForTest(t)
	p := patching{t, t.TempDir()}
	p.write("node", "#!/bin/sh\n")
	p.write("installer.yaml", "apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: x}\nspec:\n  app: {version: \"1.0\"}\n")
	base := tarLayer(t, "base", programText(1, 0))
	for version := range 2 {
		image, err := mutate.AppendLayers(empty.Image, base, tarLayer(t, "program", programText(2, uint64(version))))
		if err != nil {
			t.Fatal(err)
		}
		p.write(fmt.Sprintf("store%d/.keep", version), "")
		imagepackage.WriteImage(t, filepath.Join(p.dir, fmt.Sprintf("store%d/app-1.0.tar.gz", version)), fmt.Sprintf("example.org/app:%d", version), imagepackage.Runnable(t, image),
			bundle.BytesFile("addons/app/1.0/Manifest", 0o644, nil), bundle.BytesFile("addons/app/1.0/install.sh", 0o755, []byte("app() { :; }\n")))
	}
	p.run("old", "bundle", "-f", "installer.yaml", "--store", "store0", "--out", "old.tar.gz", "--sealift-preflight=")
	p.run("new", "bundle", "-f", "installer.yaml", "--store", "store1", "--out", "new.tar.gz", "--sealift-preflight=", "--since", "old.tar.gz", "--patch")
	p.run("new", "bundle", "-f", "installer.yaml", "--store", "store1", "--out", "other.tar.gz", "--sealift-preflight=")

	load := func(args ...string) (string, error) {
		out, err := p.command("load", append([]string{"images", "load", "new.tar.gz", "--containerd", socket, "--root", p.at("nothing")}, args...)...).CombinedOutput()
		return string(out), err
	}
	for want, args := range map[string][]string{"with --base": nil, "extends the one whose index is": {"--base", "other.tar.gz"}} {
		if out, err := load(args...); err == nil || !strings.Contains(out, want) {
			t.Errorf("%v: %v: %s", args, err, out)
		}
	}
	if out, err := load("--base", "old.tar.gz"); err != nil || !strings.Contains(out, "1 images loaded, 0 were there") {
		t.Fatalf("%v: %s", err, out)
	}
	r, err := runtime.Connect(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	images, err := r.Images(t.Context())
	if err != nil || len(images) != 1 || images[0].Names[0] != "example.org/app:1" {
		t.Errorf("%+v, %v", images, err)
	}
	if left := p.files("load"); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}
