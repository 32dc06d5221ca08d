// Package imagepackage makes a package with an image, for tests of commands that need no more of it.
package imagepackage

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/ocilayout"
)

// Write writes a package to a file. It has one small image with this reference, for linux/amd64.
func Write(t testing.TB, name, ref string) {
	t.Helper()
	image, err := random.Image(1000, 2)
	if err != nil {
		t.Fatal(err)
	}
	WriteImage(t, name, ref, Runnable(t, image))
}

// Runnable returns an image with its platform set to linux/amd64.
func Runnable(t testing.TB, image v1.Image) v1.Image {
	t.Helper()
	image, err := runnable(image)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func runnable(image v1.Image) (v1.Image, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.OS, config.Architecture = "linux", "amd64"
	return mutate.ConfigFile(image, config)
}

// WriteLayout writes an OCI layout with an image for linux/amd64. It has so many layers of so many random bytes each.
func WriteLayout(dir, ref string, layers, size int64) error {
	image, err := random.Image(size, layers)
	if err == nil {
		image, err = runnable(image)
	}
	if err != nil {
		return err
	}
	written, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	return written.AppendImage(image, layout.WithAnnotations(ocilayout.Names(ref)))
}

// WriteImage writes a package app 1.0 with an image, and with other files, to a file.
func WriteImage(t testing.TB, name, ref string, image v1.Image, files ...bundle.File) {
	t.Helper()
	WriteAddOn(t, name, "app", "1.0", ref, image, files...)
}

// WriteAddOn is WriteImage for a package of another name and version.
func WriteAddOn(t testing.TB, name, addOn, version, ref string, image v1.Image, files ...bundle.File) {
	t.Helper()
	dir := t.TempDir()
	written, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := written.AppendImage(image, layout.WithAnnotations(map[string]string{"io.containerd.image.name": ref})); err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	p := bundle.Package{Name: addOn, Version: version, Platforms: []string{"linux/amd64"}, Files: files}
	p.Contents.Images = []bundle.Image{{ID: digest.Hex[:12], Ref: ref, Digest: digest.String(), Platforms: map[string]string{"linux/amd64": digest.String()}}}
	if err := filepath.WalkDir(dir, func(file string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		below, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		one, err := bundle.DiskFile(bundle.AddOnDir(addOn, version)+"/images/"+filepath.ToSlash(below), 0o644, file)
		p.Files = append(p.Files, one)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := bundle.WritePackage(t.Context(), &out, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}
