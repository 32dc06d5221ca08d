package install

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/random"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/testing/containerd"
	"github.com/sealift/sealift/spec"
)

// bundleWithImage is a bundle of one package with an image of two layers.
func bundleWithImage(t *testing.T) []byte {
	t.Helper()
	const dir = "addons/kubernetes/1.36.3/"
	folder := t.TempDir()
	oci, err := layout.Write(folder, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	image, err := random.Image(1<<10, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := oci.AppendImage(image, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "registry.example.com/app:1"}), layout.WithPlatform(v1.Platform{OS: "linux", Architecture: "amd64"})); err != nil {
		t.Fatal(err)
	}
	p := bundle.Package{Name: "kubernetes", Version: "1.36.3", Platforms: []string{"linux/amd64"}, Files: []bundle.File{
		bundle.BytesFile(dir+"Manifest", 0o644, []byte("image app registry.example.com/app:1\n")), bundle.BytesFile(dir+"install.sh", 0o644, []byte("kubernetes() { :; }\n")),
	}}
	err = fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, err := bundle.DiskFile(dir+"images/"+name, 0o644, filepath.Join(folder, name))
		p.Files = append(p.Files, file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var packed, out bytes.Buffer
	if _, err := bundle.WritePackage(t.Context(), &packed, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := bundle.WriteBundle(t.Context(), &out, bundle.Bundle{Packages: []*bundle.Archive{openBundle(t, packed.Bytes())}}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestNodeHasContentOmittedFromUpgrade installs the files and images of a bundle, and reads all of them back.
func TestNodeHasContentOmittedFromUpgrade(t *testing.T) {
	i := &Install{job: job{options: Options{Scope: node.Scope{Root: t.TempDir()}}, contents: contents{archive: openBundle(t, bundleWithImage(t))}}, socket: containerd.ForTest(t), Session: &node.Session{Log: node.NewLog(t.TempDir(), lifecycle.Installing, t.Output())}}
	t.Cleanup(func() { _ = i.Close() })
	var err error
	if i.spec, err = spec.Parse("installer.yaml", strings.NewReader("apiVersion: sealift.dev/v1\nkind: Installer\nspec: {kubernetes: {version: 1.36.3}}\n")); err != nil {
		t.Fatal(err)
	}
	if i.addOns, err = readAddOns(i.archive, i.spec); err != nil {
		t.Fatal(err)
	}
	if _, err := openInstalled(t.Context(), i.options.Root, i.socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing is installed: %v", err)
	}
	for _, a := range i.addOns {
		if _, err := i.extract(a)(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := i.loadImages(a)(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	index, _ := i.archive.Raw()
	if err := os.WriteFile(filepath.Join(i.options.Root, bundle.IndexName), index, 0o600); err != nil {
		t.Fatal(err)
	}
	has, err := openInstalled(t.Context(), i.options.Root, i.socket)
	if err != nil {
		t.Fatal(err)
	}
	// another archive with this index verifies its reads
	again, err := bundle.NewUnpacked(index, nil, has.Open)
	if err != nil {
		t.Fatal(err)
	}
	blobs := 0
	for _, e := range again.Index.Entries {
		if !strings.HasPrefix(e.Path, "addons/") {
			continue
		}
		if strings.Contains(e.Path, "/images/blobs/") {
			blobs++
		}
		content, err := again.OpenEntry(e.Path)
		if err != nil {
			t.Errorf("%s: %v", e.Path, err)
			continue
		}
		if _, err := io.Copy(io.Discard, content); err != nil {
			t.Errorf("%s: %v", e.Path, err)
		}
		_ = content.Close()
	}
	if blobs < 4 { // a manifest, a configuration, two layers
		t.Errorf("the bundle has only %d blobs", blobs)
	}
	gone := bundle.Entry{Path: "addons/kubernetes/1.36.3/install.sh", Size: 1, SHA256: strings.Repeat("0", 64)}
	if _, err := has.Open(gone); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that was changed: %v", err)
	}
	if err := has.Close(); err != nil {
		t.Error(err)
	}
}

// TestWordsGetTypesOfBundledAddOn sets options of an add-on by words of a command line, which only the add-on's declaration gives a type.
func TestWordsGetTypesOfBundledAddOn(t *testing.T) {
	dir := bundle.AddOnDir("web", "1.0") + "/"
	p := bundle.Package{Name: "web", Version: "1.0", Platforms: []string{"linux/amd64"}, Files: []bundle.File{
		bundle.BytesFile(dir+"Manifest", 0o644, nil), bundle.BytesFile(dir+"install.sh", 0o644, []byte("web() { :; }\n")),
		bundle.BytesFile(dir+"addon.yaml", 0o644, []byte("options:\n  replicas: {type: integer}\n  names: {type: array}\n")),
	}}
	var packed, out bytes.Buffer
	if _, err := bundle.WritePackage(t.Context(), &packed, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := bundle.WriteBundle(t.Context(), &out, bundle.Bundle{Packages: []*bundle.Archive{openBundle(t, packed.Bytes())}}); err != nil {
		t.Fatal(err)
	}
	archive := openBundle(t, out.Bytes())
	read := func(options string, words ...string) (*spec.Installer, error) {
		s, err := spec.Parse("installer.yaml", strings.NewReader("apiVersion: sealift.dev/v1\nkind: Installer\nspec: {web: {version: '1.0'"+options+"}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if s, _, err = s.Override(words...); err != nil {
			t.Fatal(err)
		}
		_, err = readAddOns(archive, s)
		return s, err
	}
	s, err := read("", "web.replicas=3", "web.names=a,b")
	if diff := cmp.Diff(spec.Options{"replicas": int64(3), "names": []any{"a", "b"}}, s.AddOn("web").Options); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, row := range []struct{ options, word string }{{"", "web.replicas=many"}, {", replicas: '3'", "web.names=a"}} {
		if _, err := read(row.options, row.word); err == nil || !strings.Contains(err.Error(), "option replicas must be of type integer") {
			t.Errorf("%q and %q: %v", row.options, row.word, err)
		}
	}
}
