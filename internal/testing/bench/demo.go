package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/testgrid/lab/mirror"
)

// demoAddOns are the add-ons of the demo, NAME/VERSION: first those of a node with its network.
func demoAddOns() (list []string) {
	for _, name := range []string{"containerd", "kubernetes", "flannel", "local-path-provisioner", "metrics-server"} {
		list = append(list, name+"/"+releases.Current(name).Version)
	}
	return list
}

// catalogue builds packages of add-ons of the catalogue, given as NAME/VERSION, into a store.
func (b *bench) catalogue(ctx context.Context, addOns ...string) (packages string, err error) {
	if err := b.open(ctx); err != nil {
		return "", err
	}
	folders := make([]string, 0, len(addOns))
	for _, a := range addOns {
		folders = append(folders, "addons/"+a)
	}
	return b.packagesOf(ctx, b.mirror, folders...)
}

// packagesOf builds packages of add-ons from a mirror, given as folders, into a store.
func (b *bench) packagesOf(ctx context.Context, m *mirror.Mirror, folders ...string) (packages string, err error) {
	config := b.dir.File("sealift.yaml")
	if err := m.WriteConfig(config); err != nil {
		return "", err
	}
	packages = b.dir.File("packages")
	build := []string{b.sealift, "build", "--out", packages, "--target", "debian-12", "--config", config, "--cache", b.dir.File("cache")}
	return packages, command(ctx, append(build, folders...))
}

// installerOf is an Installer of add-ons, given as NAME/VERSION.
func installerOf(addOns ...string) string {
	installer := "apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: bench}\nspec:\n"
	for _, a := range addOns {
		name, version, _ := strings.Cut(a, "/")
		installer += fmt.Sprintf("  %s: {version: %q}\n", name, version)
	}
	return installer
}

// bundle writes an Installer, and the bundle of its add-ons to a file.
func (b *bench) bundle(ctx context.Context, packages, installer, text, file string, flags ...string) error {
	if err := os.WriteFile(installer, []byte(text), 0o600); err != nil {
		return err
	}
	return command(ctx, append([]string{b.sealift, "bundle", "-f", installer, "--store", packages, "--cache", b.dir.File("cache"), "--out", file}, flags...))
}

// demoBundle makes the demo's bundle in one form, "" or --lean, once.
func (b *bench) demoBundle(ctx context.Context, form string) (file string, err error) {
	file = b.dir.File("demo" + form + ".tar.gz")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	packages, err := b.catalogue(ctx, demoAddOns()...)
	if err != nil {
		return "", err
	}
	return file, b.bundle(ctx, packages, b.dir.File("demo.yaml"), installerOf(demoAddOns()...), file, strings.Fields(form)...)
}

// usb makes a folder for hosts: a bundle of an Installer, its install.sh, and time(1).
func (b *bench) usb(ctx context.Context, name, installer string, addOns []string) (dir string, err error) {
	dir = b.dir.File(name)
	packages, err := b.catalogue(ctx, addOns...)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	file := filepath.Join(dir, "cluster.tar.gz")
	if err := b.bundle(ctx, packages, filepath.Join(dir, "installer.yaml"), installer, file); err != nil {
		return "", err
	}
	return dir, command(ctx, []string{"tar", "xzf", file, "-C", dir, "--occurrence=1", "install.sh"}, []string{"cp", "/usr/bin/time", dir})
}

// imagesOf lists the images of a bundle, each once.
func (b *bench) imagesOf(bundle string) (refs []string, err error) {
	out, err := b.output(b.dir.Path(), b.sealift+" inspect -o json "+bundle)
	if err != nil {
		return nil, err
	}
	var inspected struct {
		Packages []struct{ Images []struct{ Ref string } }
	}
	if err := json.Unmarshal([]byte(out), &inspected); err != nil {
		return nil, fmt.Errorf("read what inspect prints: %w", err)
	}
	for _, p := range inspected.Packages {
		for _, i := range p.Images {
			refs = append(refs, i.Ref)
		}
	}
	slices.Sort(refs)
	return slices.Compact(refs), nil
}
