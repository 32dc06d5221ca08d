package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/testing/imagepackage"
	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/spec/record"
)

// factory is a machine where bundles are made: a store with packages, and Installers.
type factory struct {
	*testing.T
	dir string
	err bytes.Buffer // the output of the last command there
}

// layers are the images of a package: size bytes that deflate cannot shrink, the same for the same seed.
func layers(seeds ...byte) (files [][]byte) {
	for _, seed := range seeds {
		data := make([]byte, 1<<20)
		_, _ = rand.NewChaCha8([32]byte{seed}).Read(data)
		files = append(files, data)
	}
	return files
}

// publish puts a package into the store, with the layers of its image as blobs.
func (f *factory) publish(name, version string, seeds ...byte) {
	f.Helper()
	dir := "addons/" + name + "/" + version + "/"
	p := bundle.Package{Name: name, Version: version, Platforms: []string{"linux/amd64"}, Files: []bundle.File{
		bundle.BytesFile(dir+"Manifest", 0o644, nil), bundle.BytesFile(dir+"install.sh", 0o644, []byte(name+"() { :; }\n")),
	}}
	for _, data := range layers(seeds...) {
		sum := sha256.Sum256(data)
		p.Files = append(p.Files, bundle.BytesFile(dir+"images/blobs/sha256/"+hex.EncodeToString(sum[:]), 0o644, data))
	}
	var out bytes.Buffer
	if _, err := bundle.WritePackage(f.Context(), &out, p, bundle.WriteOptions{}); err != nil {
		f.Fatal(err)
	}
	f.write("dist/"+name+"-"+version+".tar.gz", out.Bytes())
}

// publishFile puts a package with one file into the store.
func (f *factory) publishFile(name, version, file string, data []byte) {
	f.Helper()
	dir := "addons/" + name + "/" + version + "/"
	p := bundle.Package{Name: name, Version: version, Platforms: []string{"linux/amd64"}, Files: []bundle.File{
		bundle.BytesFile(dir+"Manifest", 0o644, nil), bundle.BytesFile(dir+"install.sh", 0o644, []byte(name+"() { :; }\n")), bundle.BytesFile(dir+file, 0o755, data),
	}}
	var out bytes.Buffer
	if _, err := bundle.WritePackage(f.Context(), &out, p, bundle.WriteOptions{}); err != nil {
		f.Fatal(err)
	}
	f.write("dist/"+name+"-"+version+".tar.gz", out.Bytes())
}

func (f *factory) write(name string, data []byte) {
	f.Helper()
	path := filepath.Join(f.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o600)); err != nil {
		f.Fatal(err)
	}
}

// installer writes an Installer with these versions, and returns its file.
func (f *factory) installer(kubernetes, network string) string {
	name := kubernetes + ".yaml"
	f.write(name, fmt.Appendf(nil, "apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: site}\nspec:\n  kubernetes: {version: %s}\n  network: {version: %s}\n", kubernetes, network))
	return filepath.Join(f.dir, name)
}

// made is a bundle that the command wrote.
type made struct {
	*bundle.Archive
	file string
	size int64
}

// bundle runs the command, and opens its output.
func (f *factory) bundle(args ...string) made {
	f.Helper()
	out := filepath.Join(f.dir, fmt.Sprintf("%d.tar.gz", time.Now().UnixNano()))
	if err := f.try(append(args, "--out", out)...); err != nil {
		f.Fatal(err)
	}
	a, err := bundle.Open(out)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = a.Close() })
	info, err := os.Stat(out)
	if err != nil {
		f.Fatal(err)
	}
	return made{a, out, info.Size()}
}

func (f *factory) try(args ...string) error {
	f.err.Reset()
	cmd := Bundle(&app.App{Out: io.Discard, Err: &f.err, Log: slog.New(slog.DiscardHandler)}, []string{"install", "join", "upgrade"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append(args, "--store", filepath.Join(f.dir, "dist"), "--cache", filepath.Join(f.dir, "cache"), "--platform", "linux/amd64",
		"--sealift", filepath.Join(f.dir, "tool"), "--sealift-preflight", noPreflight))
	return cmd.ExecuteContext(f.Context())
}

// recordOf is the record of a cluster that was made from a bundle.
func (f *factory) recordOf(from made, kubernetes string) (file string) {
	f.Helper()
	installer, err := from.ReadFile(bundle.InstallerName, 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	r := record.Record{Time: time.Now(), Sealift: "test", Kubernetes: kubernetes, Bundle: from.Digest, Installer: string(installer),
		Nodes: []record.Node{{Name: "host-1", Kubelet: kubernetes}}}
	for _, p := range from.Index.Packages {
		r.Packages = append(r.Packages, record.Package{Name: p.Name, Version: p.Version, Index: p.Index, Lean: from.Index.LeanLayers(p)})
	}
	text, err := r.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.write("RECORD.json", text)
	return filepath.Join(f.dir, "RECORD.json")
}

// node has the files of the bundle that is installed on it.
type node struct{ of *bundle.Archive }

func (n node) Open(e bundle.Entry) (io.ReadCloser, error) {
	for _, has := range n.of.Index.Entries {
		if has.SHA256 == e.SHA256 {
			return n.of.OpenEntry(has.Path)
		}
	}
	return nil, fs.ErrNotExist
}

func (node) Close() error { return nil }

func TestBundleFromRecordCarriesWhatClusterLacks(t *testing.T) {
	f := &factory{T: t, dir: t.TempDir()}
	f.write("tool", []byte("#!/bin/sh\n"))
	f.publish("kubernetes", "1.34.4", 1, 2, 3)
	f.publish("kubernetes", "1.35.1", 1, 2, 4) // its etcd and pause are those of 1.34
	f.publish("kubernetes", "1.35.4", 1, 2, 5)
	f.publish("kubernetes", "1.36.3", 1, 6)
	f.publish("network", "0.26.7", 7, 8, 9)

	older := f.bundle("-f", f.installer("1.34.4", "0.26.7"))
	file := f.recordOf(older, "1.34.4")
	newest := f.installer("1.36.3", "0.26.7")
	whole := f.bundle("-f", newest, "--upgrade-from", "1.34.4")
	part := f.bundle("-f", newest, "--upgrade-from", file)
	t.Logf("with all %d bytes, from the record %d bytes", whole.size, part.size)
	if got := part.Versions("kubernetes"); len(got) != 2 || len(whole.Versions("kubernetes")) != 2 {
		t.Errorf("the bundle has Kubernetes %q; 1.35.4 and 1.36.3 are on the way", got)
	}
	if part.size > 2<<20+64<<10 { // one layer of 1.35.4, one of 1.36.3
		t.Errorf("the bundle has %d bytes, and two layers are new", part.size)
	}
	if err := part.WithInstalled(node{older.Archive}); err != nil {
		t.Fatal(err)
	}
	if err := part.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	for _, e := range whole.Index.Entries {
		if got, ok := part.Entry(e.Path); !ok || got.SHA256 != e.SHA256 {
			t.Errorf("%s: %v", e.Path, got)
		}
	}

	// The bundle that the cluster runs says the same, even if the store has other builds by now.
	f.publish("network", "0.26.7", 7, 8, 10)
	since := f.bundle("-f", newest, "--upgrade-from", file, "--since", older.file)
	if since.Index.Base != part.Index.Base || since.size > part.size+1<<20+64<<10 { // and the layer of the other build
		t.Errorf("with --since %d bytes", since.size)
	}
	other := f.bundle("-f", newest, "--upgrade-from", file)
	if other.size < since.size+2<<20 || !strings.Contains(f.err.String(), "lacks network 0.26.7 as the cluster has it") {
		t.Errorf("with another build of network %d bytes: %s", other.size, &f.err)
	}
}

func TestBundleWithPatchesIsSmaller(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	f := &factory{T: t, dir: t.TempDir()}
	f.write("tool", []byte("#!/bin/sh\n"))
	text := func(version string) []byte {
		var out bytes.Buffer
		for n := range 20_000 {
			fmt.Fprintf(&out, "%x %s\n", sha256.Sum256(fmt.Append(nil, n)), version)
		}
		return out.Bytes()
	}
	for _, version := range []string{"1.35.4", "1.36.3"} {
		f.publish("kubernetes", version, 1, version[3])
		f.publishFile("tools", version, "assets/kubelet", text(version))
	}
	installer := func(version string) string {
		f.write(version+".yaml", fmt.Appendf(nil, "apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: site}\nspec:\n  kubernetes: {version: %[1]s}\n  tools: {version: %[1]s}\n", version))
		return filepath.Join(f.dir, version+".yaml")
	}
	older := f.bundle("-f", installer("1.35.4"))
	newer := installer("1.36.3")
	whole := f.bundle("-f", newer, "--since", older.file)
	file := f.recordOf(older, "1.35.4")
	for _, from := range [][]string{{"--since", older.file}, {"--upgrade-from", file}} {
		part := f.bundle(append([]string{"-f", newer, "--patch"}, from...)...)
		if saved := whole.size - part.size; part.Index.Format != bundle.FormatPatch || saved < 500_000 {
			t.Errorf("%s: format %s, %d bytes less than %d", from[0], part.Index.Format, saved, whole.size)
		}
		if err := part.WithInstalled(node{older.Archive}); err != nil {
			t.Fatal(err)
		}
		if err := part.Verify(t.Context()); err != nil {
			t.Error(err)
		}
		got, err := part.ReadFile("addons/tools/1.36.3/assets/kubelet", 10<<20)
		if err != nil || !bytes.Equal(got, text("1.36.3")) {
			t.Errorf("%s: %d bytes, %v", from[0], len(got), err)
		}
	}
	if err := f.try("-f", newer, "--patch", "--out", filepath.Join(f.dir, "x.tar.gz")); err == nil || !strings.Contains(err.Error(), "--since") {
		t.Errorf("--patch alone: %v", err)
	}
}

// TestUpdateOfLeanBundleIsLean has bundles with plain layers and with such that were compressed again, and the records of clusters that were
// installed from them.
func TestUpdateOfLeanBundleIsLean(t *testing.T) {
	f := &factory{T: t, dir: t.TempDir()}
	f.write("tool", []byte("#!/bin/sh\n"))
	f.publish("kubernetes", "1.35.4", 1)
	f.publish("kubernetes", "1.36.3", 2)
	image, err := mutate.AppendLayers(empty.Image, static.NewLayer(bytes.Repeat(layers(9)[0][:400_000], 4), types.OCIUncompressedLayer))
	if err != nil {
		t.Fatal(err)
	}
	imagepackage.WriteImage(t, filepath.Join(f.dir, "dist/app-1.0.tar.gz"), "example.org/app:1", image,
		bundle.BytesFile("addons/app/1.0/Manifest", 0o644, nil), bundle.BytesFile("addons/app/1.0/install.sh", 0o755, nil))
	installer := func(version string) string {
		f.write(version+".yaml", fmt.Appendf(nil, "apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: site}\nspec:\n  kubernetes: {version: %s}\n  app: {version: \"1.0\"}\n", version))
		return filepath.Join(f.dir, version+".yaml")
	}
	for _, row := range []struct {
		cluster, flags []string
		format         string // of a bundle that carries the image
		noted          bool
	}{
		{nil, nil, bundle.Format, false},
		{[]string{"--lean"}, nil, bundle.FormatLean, true},
		{[]string{"--lean"}, []string{"--lean=false"}, bundle.Format, false},
		{[]string{"--lean"}, []string{"--lean"}, bundle.FormatLean, false},
	} {
		older := f.bundle(append([]string{"-f", installer("1.35.4")}, row.cluster...)...)
		for _, from := range [][]string{{"--upgrade-from", f.recordOf(older, "1.35.4")}, {"--since", older.file}} {
			made := f.bundle(slices.Concat([]string{"-f", installer("1.36.3")}, from, row.flags)...)
			if noted := strings.Contains(f.err.String(), "--lean=false"); made.Index.Format != row.format || noted != row.noted {
				t.Errorf("%v %v %v: format %s: %s", row.cluster, from, row.flags, made.Index.Format, &f.err)
			}
			if err := made.WithInstalled(node{older.Archive}); err != nil {
				t.Fatal(err)
			}
			if err := made.Verify(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestUpgradeFromUnusableRecordIsRefused(t *testing.T) {
	f := &factory{T: t, dir: t.TempDir()}
	f.write("tool", []byte("#!/bin/sh\n"))
	f.write("x.json", []byte(`{"format":"sealift.dev/record/v1","password":"x"}`))
	f.publish("kubernetes", "1.36.3", 1)
	f.publish("network", "0.26.7", 2)
	installer := f.installer("1.36.3", "0.26.7")
	file := f.recordOf(f.bundle("-f", installer), "1.37.0")
	for from, want := range map[string]string{
		filepath.Join(f.dir, "none.json"): "neither a version of Kubernetes such as 1.34.4 nor a file",
		filepath.Join(f.dir, "x.json"):    `unknown field "password"`,
		f.dir:                             "regular file",
		file:                              "the Installer has Kubernetes 1.36.3, which is no newer",
	} {
		if err := f.try("-f", installer, "--upgrade-from", from, "--out", filepath.Join(f.dir, "x.tar.gz")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", from, err)
		}
	}
	if err := f.try("-f", installer, "--upgrade-from", "1.35.4", "--patch", "--out", filepath.Join(f.dir, "x.tar.gz")); err == nil || !strings.Contains(err.Error(), "--patch needs earlier files") {
		t.Errorf("patches against a version: %v", err)
	}
}

// TestEvidenceNeedsFilesThatClusterHas asks for evidence of a bundle whose other files only the cluster has.
func TestEvidenceNeedsFilesThatClusterHas(t *testing.T) {
	f := &factory{T: t, dir: t.TempDir()}
	f.write("tool", []byte("#!/bin/sh\n"))
	f.publish("kubernetes", "1.35.4", 1)
	f.publish("kubernetes", "1.36.3", 1)
	f.publish("network", "0.26.7", 2)
	older := f.bundle("-f", f.installer("1.35.4", "0.26.7"))
	args := []string{"-f", f.installer("1.36.3", "0.26.7"), "--upgrade-from", f.recordOf(older, "1.35.4"), "--evidence"}
	out := filepath.Join(f.dir, "x.tar.gz")
	if err := f.try(append(args, "--out", out)...); err == nil || !strings.Contains(err.Error(), "with --since") {
		t.Errorf("without the bundle that is installed: %v", err)
	}
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the bundle was written: %v", err)
	}
	f.bundle(append(args, "--since", older.file)...)
}

func TestUpgradeStepsAreIntermediateMinorVersions(t *testing.T) {
	for name, row := range map[string]struct {
		from, to string
		want     string // of the steps, or of the error
		err      bool
	}{
		"no upgrade":       {"", "1.36.3", "", false},
		"the same minor":   {"1.36.1", "1.36.3", "", false},
		"the next minor":   {"1.35.4", "1.36.3", "", false},
		"three minors":     {"1.33.0", "1.36.3", "1.34.x 1.35.x", false},
		"an older version": {"1.37.0", "1.36.3", "is no newer", true},
		"no version":       {"newest", "1.36.3", "not a version", true},
		"no Kubernetes":    {"1.35.4", "", "not a version", true},
		"another major":    {"2.1.0", "1.36.3", "is no newer", true},
	} {
		t.Run(name, func(t *testing.T) {
			installer := &spec.Installer{}
			if row.to != "" {
				installer.AddOns = []spec.AddOn{{Name: "kubernetes", Version: row.to}}
			}
			steps, err := cluster{kubernetes: row.from}.steps(installer)
			if row.err != (err != nil) || err != nil && !strings.Contains(err.Error(), row.want) {
				t.Fatalf("%v", err)
			}
			var versions []string
			for _, s := range steps {
				versions = append(versions, s.Version)
			}
			if got := strings.Join(versions, " "); err == nil && got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}
