package runtime_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/lean"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/internal/testing/containerd"
)

const leanRef = "registry.k8s.io/tools:1"

// leanImage has a layer that has a lean form, between two that have none.
func leanImage(t *testing.T) v1.Image {
	t.Helper()
	noise := make([]byte, 400_000)
	_, _ = rand.NewChaCha8([32]byte{3}).Read(noise)
	large := layerOf(t, "usr/local/bin/tool", strings.Repeat(string(noise), 4))
	img, err := mutate.AppendLayers(image(t, 1), large, layerOf(t, "etc/motd", "x"))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// leanBundle returns the bundle of a package with lean layers.
func leanBundle(t *testing.T, plain *bundle.Archive) *bundle.Archive {
	t.Helper()
	return leanBundleFile(t, plain, filepath.Join(t.TempDir(), "bundle.tar.gz"))
}

// leanBundleFile writes that bundle to a file.
func leanBundleFile(t *testing.T, plain *bundle.Archive, name string) *bundle.Archive {
	t.Helper()
	companion, err := lean.NewSpool(t.TempDir()).Companion(t.Context(), plain)
	if err != nil || companion == nil {
		t.Fatalf("no companion: %v", err)
	}
	defer companion.Close()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = bundle.WriteBundle(t.Context(), f, bundle.Bundle{Packages: []*bundle.Archive{plain}, Lean: []*bundle.Archive{companion}})
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	a, err := bundle.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

func assembled(t *testing.T, b bundle.Bundle) *bundle.Archive {
	t.Helper()
	var buf bytes.Buffer
	if _, err := bundle.WriteBundle(t.Context(), &buf, b); err != nil {
		t.Fatal(err)
	}
	a, err := bundle.NewArchive(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// leanEntry returns the only lean layer of an archive.
func leanEntry(t *testing.T, a *bundle.Archive) bundle.Entry {
	t.Helper()
	var found []bundle.Entry
	for _, e := range a.Index.Entries {
		if e.Layer != nil {
			found = append(found, e)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d lean layers", len(found))
	}
	return found[0]
}

func wantLoad(t *testing.T, r *runtime.Runtime, a *bundle.Archive, want runtime.Result) {
	t.Helper()
	if got, err := r.Load(t.Context(), openLayout(t, a), func(string) {}); err != nil || got != want {
		t.Fatalf("%+v, %v; want %+v", got, err, want)
	}
}

// has reports whether containerd has a blob.
func has(t *testing.T, r *runtime.Runtime, sha256 string) bool {
	t.Helper()
	blob, err := r.Blob(t.Context(), sha256)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return blob.Close() == nil
}

// TestLeanImageSurvivesRestartAndCollection loads an image without the layer that its manifest names.
func TestLeanImageSurvivesRestartAndCollection(t *testing.T) {
	c := containerd.StartForTest(t)
	ctr := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), c.Ctr, append([]string{"--address", c.Socket, "--namespace", "k8s.io"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("ctr %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	dial := func() *runtime.Runtime {
		t.Helper()
		r, err := runtime.Connect(t.Context(), c.Socket)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	plain := archive(t, map[string]v1.Image{leanRef: leanImage(t)})
	a := leanBundle(t, plain)
	e := leanEntry(t, a)
	r := dial()
	wantLoad(t, r, a, runtime.Result{Loaded: 1})
	if has(t, r, e.Layer.Blob) || !has(t, r, e.SHA256) {
		t.Error("containerd does not have the lean layer alone")
	}
	wantLoad(t, r, a, runtime.Result{Present: 1})
	if err := errors.Join(r.Close(), c.Restart(t.Context())); err != nil {
		t.Fatal(err)
	}
	collect := func() {
		t.Helper()
		ctr("leases", "create", "--id", "collect")
		ctr("leases", "delete", "--sync", "collect") // collects what nothing refers to
	}
	collect()
	r = dial()
	defer func() { _ = r.Close() }()
	wantLoad(t, r, a, runtime.Result{Present: 1})

	to := filepath.Join(t.TempDir(), "tool")
	if err := r.Program(t.Context(), leanRef, "/usr/local/bin/tool", to); err != nil {
		t.Fatal(err)
	}
	if err := openLayout(t, a).Program(t.Context(), leanRef, "/usr/local/bin/tool", to+"-2"); err != nil {
		t.Fatal(err)
	}
	one, err := os.ReadFile(to)
	two, err2 := os.ReadFile(to + "-2")
	if err := errors.Join(err, err2); err != nil || len(one) != 1_600_000 || !bytes.Equal(one, two) {
		t.Errorf("%d and %d bytes, %v", len(one), len(two), err)
	}

	wantLoad(t, r, plain, runtime.Result{Loaded: 1}) // nodes that join ask for the plain layer now
	if !has(t, r, e.Layer.Blob) {
		t.Error("containerd lacks the plain layer")
	}
	for _, either := range []*bundle.Archive{a, plain} {
		wantLoad(t, r, either, runtime.Result{Present: 1})
	}
	for _, name := range openLayout(t, a).Images {
		repository, _, _ := strings.Cut(name.Ref, ":")
		ctr("images", "rm", name.Ref, repository+"@"+name.Target.Digest.String())
	}
	collect()
	if has(t, r, e.SHA256) || has(t, r, e.Layer.Blob) {
		t.Error("the layers outlive their image")
	}
	wantLoad(t, r, a, runtime.Result{Loaded: 1})
}

// TestForgedLeanLayerIsRefused replaces a lean layer by that of another program. Its digest is right, as in an unsigned bundle.
func TestForgedLeanLayerIsRefused(t *testing.T) {
	r := connect(t)
	plain := archive(t, map[string]v1.Image{leanRef: leanImage(t)})
	real := leanEntry(t, leanBundle(t, plain))
	forge := func(unpacked string, change func(*bundle.Layer)) *bundle.Archive {
		t.Helper()
		var packed bytes.Buffer
		encoder, err := bundle.NewLayerEncoder()
		if err != nil {
			t.Fatal(err)
		}
		layer, err := encoder.Encode(&packed, strings.NewReader(unpacked))
		if err != nil {
			t.Fatal(err)
		}
		layer.Blob, layer.DiffID = real.Layer.Blob, real.Layer.DiffID
		change(&layer)
		sum := sha256.Sum256(packed.Bytes())
		f := bundle.BytesFile(path.Join(path.Dir(real.Path), hex.EncodeToString(sum[:])), 0o644, packed.Bytes())
		f.Layer = &layer
		var buf bytes.Buffer
		p := bundle.Package{Name: "demo", Version: "1.0.0", Platforms: []string{"linux/amd64"}, Files: []bundle.File{f}}
		if _, err := bundle.WritePackage(t.Context(), &buf, p, bundle.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		companion, err := bundle.NewArchive(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
		if err != nil {
			t.Fatal(err)
		}
		return assembled(t, bundle.Bundle{Packages: []*bundle.Archive{plain}, Lean: []*bundle.Archive{companion}})
	}
	layer, err := layerOf(t, "usr/local/bin/tool", strings.Repeat("forged", 100_000)).Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	forged, err := io.ReadAll(layer)
	if err != nil {
		t.Fatal(err)
	}
	own := sha256.Sum256(forged)
	for name, row := range map[string]struct {
		want     string
		change   func(*bundle.Layer)
		verified bool // an archive is consistent in itself; the image's configuration is not read
	}{
		"another program":                  {"wrong diff id", func(*bundle.Layer) {}, false},
		"another program with its diff_id": {"wrong diff id", func(l *bundle.Layer) { l.DiffID = hex.EncodeToString(own[:]) }, true},
		"a window that is too small":       {"window", func(l *bundle.Layer) { l.Window = 1 << 10 }, false},
	} {
		a := forge(string(forged), row.change)
		if _, err := r.Load(t.Context(), openLayout(t, a), func(string) {}); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v", name, err)
		}
		if err := a.VerifyLayers(t.Context()); (err == nil) != row.verified {
			t.Errorf("%s: verified: %v", name, err)
		}
	}
	wantLoad(t, r, leanBundle(t, plain), runtime.Result{Loaded: 1})
}
