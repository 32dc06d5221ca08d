package builder_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// TestChangedLicensesAreListed has packages of Debian's archive: what a version adds has its license, and what stays is not fetched.
func TestChangedLicensesAreListed(t *testing.T) {
	w := newWorld(t, "debian-12")
	c := openCache(t)
	b := w.builder(t, c, 2)
	dir := t.TempDir()
	for version, manifest := range map[string]string{"1.0": "apt socat\n", "1.1": "apt socat\napt ethtool\n"} {
		writeFile(t, filepath.Join(dir, "demo", version, "Manifest"), manifest)
		if _, err := b.Lock(t.Context(), filepath.Join(dir, "demo", version), builder.LockUpdate); err != nil {
			t.Fatal(err)
		}
	}
	changes, err := b.LicenseChanges(t.Context(), filepath.Join(dir, "demo", "1.0"), filepath.Join(dir, "demo", "1.1"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, change := range changes {
		lines = append(lines, change.String())
	}
	added := slices.IndexFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "license debian-12 ethtool: new, ") && strings.Contains(line, "GPL-2.0")
	})
	if added < 0 || slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, " socat") }) {
		t.Errorf("got %q", lines)
	}
	if same, err := b.LicenseChanges(t.Context(), filepath.Join(dir, "demo", "1.0"), filepath.Join(dir, "demo", "1.0")); err != nil || len(same) != 0 {
		t.Errorf("the same version has other licenses: %v, %v", same, err)
	}
}

// TestForbiddenLicenseIsRefused also checks that a package which is up to date is looked at again.
func TestForbiddenLicenseIsRefused(t *testing.T) {
	w := newWorld(t, "debian-12")
	c, dir, out := openCache(t), addOn(t, "demo", "apt ethtool\n"), t.TempDir()
	configured := readFile(t, w.config)
	writeFile(t, w.config, configured+"licenses: {forbidden: [AGPL-3.0-only]}\n")
	if _, err := w.builder(t, c, 2).Build(t.Context(), dir, out); err != nil {
		t.Fatal(err)
	}
	writeFile(t, w.config, configured+"licenses: {forbidden: [GPL-2.0-only, GPL-2.0-or-later]}\n")
	_, err := w.builder(t, c, 2).Build(t.Context(), dir, out)
	if err == nil || !strings.Contains(err.Error(), "host package ethtool ") || !strings.Contains(err.Error(), "licenses.forbidden") {
		t.Errorf("got %v", err)
	}
}

// TestForbiddenLicenseInImageIsRefused names image, layer, package and license, and follows exceptions to their end.
func TestForbiddenLicenseInImageIsRefused(t *testing.T) {
	w := newWorld(t)
	content := fixture.Layer(t, [2]string{"etc/os-release", "ID=debian\nVERSION_ID=12\n"},
		[2]string{"var/lib/dpkg/status", "Package: bash\nStatus: install ok installed\nArchitecture: amd64\nVersion: 5.2-1\n"},
		[2]string{"usr/share/doc/bash/copyright", "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\nLicense: GPL-3+\n"})
	w.push(t, "app:1", static.NewLayer(content, types.OCILayer))
	dir, out, c := addOn(t, "demo", "image app registry.example.io/app:1\n"), t.TempDir(), openCache(t)
	configured := readFile(t, w.config)
	until := func(days int) string { return time.Now().UTC().AddDate(0, 0, days).Format(time.DateOnly) }
	for _, row := range []struct{ name, licenses, want string }{
		{"another license", "forbidden: [AGPL-3.0-only]", ""},
		{"that of a package", "forbidden: [GPL-3.0-or-later]", "image registry.example.io/app:1 linux/amd64: package bash 5.2-1 (/var/lib/dpkg/status of layer sha256:"},
		{"an exception", "forbidden: [GPL-3.0-or-later], exceptions: [{license: GPL-3.0-or-later, image: registry.example.io/app, package: bash, reason: legal, until: " + until(1) + "}]", ""},
		{"one that is over", "forbidden: [GPL-3.0-or-later], exceptions: [{license: GPL-3.0-or-later, image: registry.example.io/app, package: bash, reason: legal, until: " + until(-1) + "}]",
			"has the license GPL-3.0-or-later; exception until " + until(-1) + ": legal"},
	} {
		t.Run(row.name, func(t *testing.T) {
			writeFile(t, w.config, configured+"licenses: {"+row.licenses+"}\n")
			_, err := w.builder(t, c, 2).Build(t.Context(), dir, out)
			if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}
