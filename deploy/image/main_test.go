package main

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// settings are an image of this test's own files.
func settings(t *testing.T) options {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"sealift": "a program", "sealift-node": "a node's", "authorities": "a certificate"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return options{binary: filepath.Join(dir, "sealift"), node: filepath.Join(dir, "sealift-node"), certificates: filepath.Join(dir, "authorities"), out: filepath.Join(dir, "image.tar"), arch: "amd64"}
}

// read unpacks an image with tar and checks it completely.
func read(t *testing.T, name string, digest v1.Hash) v1.Image {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("tar", "xf", name, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	path, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	image, err := path.Image(digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(image); err != nil {
		t.Error(err)
	}
	return image
}

// made makes an image and returns it with its files.
func made(t *testing.T, o options) (image v1.Image, files map[string]string) {
	t.Helper()
	digest, err := o.make()
	if err != nil {
		t.Fatal(err)
	}
	image, files = read(t, o.out, digest), map[string]string{}
	content := mutate.Extract(image)
	defer content.Close()
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return image, files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(text)
	}
}

func TestTestImageHasTestgrid(t *testing.T) {
	o := settings(t)
	o.testgrid = filepath.Join(filepath.Dir(o.binary), "sealift-testgrid")
	if _, err := o.make(); err == nil || !strings.Contains(err.Error(), "the sealift for tests") {
		t.Errorf("without the program: %v", err)
	}
	if err := os.WriteFile(o.testgrid, []byte("the grid's"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, files := made(t, o); files["usr/local/bin/sealift-testgrid"] != "the grid's" || len(files) != 6 {
		t.Errorf("files: %v", files)
	}
}

func TestServerImageHasOnlyServer(t *testing.T) {
	image, files := made(t, settings(t))
	for name, want := range map[string]string{"usr/local/bin/sealift": "a program", "usr/local/bin/sealift-node": "a node's", "etc/ssl/certs/ca-certificates.crt": "a certificate"} {
		if files[name] != want {
			t.Errorf("%s is %q", name, files[name])
		}
	}
	if !strings.Contains(files["etc/passwd"], "sealift:x:65532:") || len(files) != 5 {
		t.Errorf("files: %v", files)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != user || config.Architecture != "amd64" || config.OS != "linux" {
		t.Errorf("user %q, %s/%s", config.Config.User, config.OS, config.Architecture)
	}
}

func TestImageIsReproducible(t *testing.T) {
	o := settings(t)
	var seen []string
	for range 2 {
		if _, err := o.make(); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(o.out)
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, string(data))
	}
	if seen[0] != seen[1] {
		t.Error("two images differ")
	}
}

func TestMissingFilesAreNamed(t *testing.T) {
	o := settings(t)
	o.binary += "-absent"
	if _, err := o.make(); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "make build") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(o.out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an image was left: %v", err)
	}
}
