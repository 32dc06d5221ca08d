package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/assemble"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog/online"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/internal/testing/containerd"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/server"
	"github.com/sealift/sealift/store"
)

// TestOnlineInstallFetchesEachByteOnce reads a bundle of a server as an install does: for the plan, for the disk space check,
// all files, all images.
func TestOnlineInstallFetchesEachByteOnce(t *testing.T) {
	short.AsRoot(t, "an install")
	dir := t.TempDir()
	base := packedImage(t, 4)
	packedAddOn(t, dir, "first", map[string]v1.Image{"example.org/a:1": base, "example.org/b:1": packedImage(t, 9)})
	packedAddOn(t, dir, "second", map[string]v1.Image{"example.org/a:2": base, "example.org/c:1": packedImage(t, 12)})
	url, line := servedTo(t, dir, "  first: {version: '1'}\n  second: {version: '1'}\n")

	for _, look := range [][]string{{"install", "--plan"}, {"preflight"}} {
		code, out, errOut := command(t, append(look, "--from", url, "--root", t.TempDir())...)
		if code != app.ExitDone && code != app.ExitRefused { // checks of the host may refuse
			t.Fatalf("%v: exit %d\n%s%s", look, code, out, errOut)
		}
		if sent := line.sent.Swap(0); sent == 0 || sent > 1<<20 {
			t.Errorf("%d bytes were sent for %v", sent, look)
		}
	}
	line.requests.Store(0)
	archive, err := online.Open(t.Context(), url, store.Opener{})
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	var layouts []*runtime.Layout
	for _, p := range archive.Index.Packages {
		l, err := runtime.OpenLayout(archive, path.Join(p.Dir(), "images"))
		if err != nil {
			t.Fatal(err)
		}
		layouts = append(layouts, l)
	}
	if _, err := runtime.UnpackedSize(layouts...); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := archive.Extract(t.Context(), root, func(e bundle.Entry) bool {
		return e.Path != bundle.BinaryName && !strings.Contains(e.Path, "/images/blobs/")
	}); err != nil {
		t.Fatal(err)
	}
	r, err := runtime.Connect(t.Context(), containerd.ForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, l := range layouts {
		if _, err := r.Load(t.Context(), l, func(string) {}); err != nil {
			t.Fatal(err)
		}
	}
	var lacking, layers int64
	for _, e := range archive.Index.Entries {
		if e.Path == bundle.BinaryName { // the script has brought it
			continue
		}
		lacking += e.Length
		if e.Encoding == bundle.Stored && strings.Contains(e.Path, "/images/blobs/") {
			layers++
		}
	}
	if sent := line.sent.Load(); sent > lacking*102/100 {
		t.Errorf("%d bytes were sent to a node that lacked %d", sent, lacking)
	}
	// each layer is read, and asked for its unpacked size by its first and last bytes
	if n := line.requests.Load(); n > 3*layers+40 {
		t.Errorf("%d requests for %d layers and the files of two add-ons", n, layers)
	}
	t.Logf("%d bytes in %d requests, to a node that lacked %d", line.sent.Load(), line.requests.Load(), lacking)
}

// packedImage has layers of random bytes.
func packedImage(t *testing.T, layers int64) v1.Image {
	t.Helper()
	made, err := random.Image(2_500_000, layers)
	if err != nil {
		t.Fatal(err)
	}
	config, err := made.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config.OS, config.Architecture = goruntime.GOOS, goruntime.GOARCH
	if made, err = mutate.ConfigFile(made, config); err != nil {
		t.Fatal(err)
	}
	return made
}

// packedAddOn puts the package of an add-on with images, files of all sizes and a program into a folder.
func packedAddOn(t *testing.T, dir, name string, images map[string]v1.Image) {
	t.Helper()
	folder, below := t.TempDir(), bundle.AddOnDir(name, "1")
	oci, err := layout.Write(folder, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	for ref, image := range images {
		if err := oci.AppendImage(image, layout.WithAnnotations(map[string]string{ocispec.AnnotationRefName: ref})); err != nil {
			t.Fatal(err)
		}
	}
	p := bundle.Package{Name: name, Version: "1", Platforms: []string{goruntime.GOOS + "/" + goruntime.GOARCH}}
	add := func(name, text string) {
		p.Files = append(p.Files, bundle.BytesFile(below+"/"+name, 0o644, []byte(text)))
	}
	add("Manifest", "")
	add("install.sh", name+"() { :; }\n")
	add("assets/program", strings.Repeat("a program is compressed ", 100_000))
	for i := range 20 {
		add(fmt.Sprintf("templates/%d.yaml", i), fmt.Sprintf("number: %d\n", i))
		noise, seed := make([]byte, 300_000), [32]byte{byte(i)}
		if i%2 == 0 { // the others are files that several add-ons share
			seed[1] = name[0]
		}
		_, _ = rand.NewChaCha8(seed).Read(noise)
		add(fmt.Sprintf("packages/debian-12/%d.deb", i), "!<arch>\n"+string(noise))
	}
	if err := fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, err := bundle.DiskFile(path.Join(below, "images", name), 0o644, filepath.Join(folder, name))
		p.Files = append(p.Files, file)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, name+"-1.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := bundle.WritePackage(t.Context(), f, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// countedLine counts requests to a server and its bytes.
type countedLine struct{ requests, sent atomic.Int64 }

type countedAnswer struct {
	http.ResponseWriter
	sent *atomic.Int64
}

func (c countedAnswer) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.sent.Add(int64(n))
	return n, err
}

// servedTo runs a server before a folder of packages, and stores an Installer of add-ons there. It gives that one's URL.
func servedTo(t *testing.T, dir, addOns string) (url string, line *countedLine) {
	t.Helper()
	tool := filepath.Join(t.TempDir(), "tool")
	noise := make([]byte, 3_000_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	if err := os.WriteFile(tool, append([]byte("#!/bin/sh\nexit 0\n"), noise...), 0o600); err != nil {
		t.Fatal(err)
	}
	binary, err := assemble.ProgramMember(t.Context(), bundle.BinaryName, os.Args[0], "")
	if err != nil {
		t.Fatal(err)
	}
	checker := assemble.NewLateMember(bundle.PreflightName, tool, "")
	from, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(t.Context(), server.Options{Packages: packages.Source{Store: from}, Commands: []string{"install"},
		Programs: []assemble.Program{{Platform: goruntime.GOOS + "/" + goruntime.GOARCH, Sealift: binary, Preflight: checker}}})
	if err != nil {
		t.Fatal(err)
	}
	line = &countedLine{}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		line.requests.Add(1)
		s.ServeHTTP(countedAnswer{w, &line.sent}, r)
	}))
	t.Cleanup(func() {
		front.Close()
		_, _, _ = s.Close(), binary.Close(), checker.Close()
	})
	text := "apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: x}\nspec:\n" + addOns
	resp, err := http.Post(front.URL+"/installer", "application/yaml", bytes.NewReader([]byte(text)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("%s: %s, %v", resp.Status, said, err)
	}
	return strings.TrimSpace(string(said)), line
}
