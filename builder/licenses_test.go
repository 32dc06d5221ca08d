package builder_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/builder"
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
