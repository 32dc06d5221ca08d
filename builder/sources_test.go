package builder_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/builder/config"
	"github.com/sealift/sealift/builder/license"
)

func TestSourcesOutsideRepositoryAreRefused(t *testing.T) {
	for _, header := range []tar.Header{
		{Name: "../evil", Mode: 0o644, Typeflag: tar.TypeReg}, {Name: "/etc/evil", Mode: 0o644, Typeflag: tar.TypeReg}, {Name: "a/../../evil", Mode: 0o644, Typeflag: tar.TypeReg},
		{Name: "link", Mode: 0o644, Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, {Name: "setuid", Mode: 0o4755, Typeflag: tar.TypeReg}, {Name: "device", Mode: 0o644, Typeflag: tar.TypeChar},
	} {
		var packed bytes.Buffer
		zip := gzip.NewWriter(&packed)
		archive := tar.NewWriter(zip)
		if err := errors.Join(archive.WriteHeader(&header), archive.Close(), zip.Close()); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "sources")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := builder.UnpackSources(&packed, dir); err == nil {
			t.Errorf("%s was unpacked", header.Name)
		}
		if left, err := filepath.Glob(filepath.Join(dir, "..", "evil")); err != nil || len(left) > 0 {
			t.Errorf("%s: %v, %v", header.Name, left, err)
		}
	}
}

func TestSourcesHaveAssetsOfEachArchitecture(t *testing.T) {
	repository := t.TempDir()
	dir := filepath.Join(repository, "addons/demo/1.0")
	writeFile(t, filepath.Join(dir, "Manifest"), "asset tool-{arch} ../../../files/tool-{arch}\nasset notes ../../../files/notes\n")
	writeFile(t, filepath.Join(dir, "install.sh"), "function demo() { :; }\n")
	for _, name := range []string{"tool-amd64", "tool-arm64", "notes"} {
		writeFile(t, filepath.Join(repository, "files", name), name)
	}
	b, err := builder.New(openCache(t), builder.Options{Config: config.Default(), Platforms: []string{"linux/amd64", "linux/arm64"}, Locked: true})
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	if _, err := b.Sources(t.Context(), dir, &packed); err != nil {
		t.Fatal(err)
	}
	there := t.TempDir()
	if err := builder.UnpackSources(&packed, there); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tool-amd64", "tool-arm64", "notes"} {
		if data, err := os.ReadFile(filepath.Join(there, "files", name)); err != nil || string(data) != name {
			t.Errorf("%q, %v", data, err)
		}
	}
}

func TestSourcesNameCurrentPolicyOfLicenses(t *testing.T) {
	dir := addOn(t, "demo", "")
	policy := func(until ...time.Time) string {
		settings := config.Default()
		settings.Licenses.Forbidden = []string{"AGPL-3.0-only"}
		for _, day := range until {
			settings.Licenses.Exceptions = append(settings.Licenses.Exceptions, license.Exception{License: "AGPL-3.0-only", Package: "ours", Reason: "ours", Until: day})
		}
		b, err := builder.New(openCache(t), builder.Options{Config: settings, Locked: true})
		if err != nil {
			t.Fatal(err)
		}
		s, err := b.Sources(t.Context(), dir, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		return s.Licenses
	}
	over, holds := time.Now().AddDate(0, 0, -9), time.Now().AddDate(0, 0, 9)
	if policy() == "" || policy(over) != policy() || policy(holds) == policy() {
		t.Error("an exception that is over, and only that, is another policy")
	}
}

// TestHolesInSourcesCount unpacks what GNU tar makes of a file with holes: a few hundred bytes that would fill a disk.
func TestHolesInSourcesCount(t *testing.T) {
	from := t.TempDir()
	file := filepath.Join(from, "holes")
	if err := errors.Join(os.WriteFile(file, nil, 0o644), os.Truncate(file, 5<<30)); err != nil {
		t.Fatal(err)
	}
	packed, err := exec.CommandContext(t.Context(), "tar", "--sparse", "--format=pax", "-C", from, "-czf", "-", "holes").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := builder.UnpackSources(bytes.NewReader(packed), dir); err == nil || !strings.Contains(err.Error(), "have more than") {
		t.Errorf("%d bytes were unpacked: %v", len(packed), err)
	}
	if _, err := os.Stat(filepath.Join(dir, "holes")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
}
