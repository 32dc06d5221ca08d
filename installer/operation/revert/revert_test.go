package revert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/recovery/undo"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// rotatedCA is the file of a CA that a rotation created in place of one.
func rotatedCA(t *testing.T, folder string, now time.Time) (file string) {
	t.Helper()
	rootfs := t.TempDir()
	if err := os.MkdirAll(filepath.Join(rootfs, "etc/kubernetes"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(folder, filepath.Join(rootfs, "etc/kubernetes/pki")); err != nil {
		t.Fatal(err)
	}
	s, err := authority.New(rootfs, []string{authority.Cluster}, now)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(rootfs, "new.crt")
	if err := os.WriteFile(file, []byte(s.Parts[0].New), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestUndoStopsAtCARotation(t *testing.T) {
	t.Parallel()
	file := filepath.Join(fixture.CA(t), "ca.crt")
	ca, err := identity.ReadCA(file)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	rotated := rotatedCA(t, filepath.Dir(file), now)
	of := identity.CAHash(ca)
	for name, row := range map[string]struct {
		file     string
		upgraded time.Time
		kept     string // hash of the CA
		refused  bool
	}{
		"the CA of the upgrade": {file, ca.NotBefore.Add(time.Hour), "", false},
		"a CA made since":       {file, ca.NotBefore.Add(-time.Hour), "", true},
		"a rotated CA":          {rotated, now.Add(time.Hour), "", false},
		"a CA rotated since":    {rotated, now.Add(-time.Hour), "", true}, // though it is valid since yesterday
		"no CA":                 {file + ".none", ca.NotBefore, of, false},
		"the CA of the upgrade, made while a clock was ahead": {file, ca.NotBefore.AddDate(-1, -2, 0), of, false},
		"a CA rotated since, while the clock was behind":      {rotated, now.AddDate(1, 2, 0), of, true},
	} {
		err := checkAuthority(row.file, undo.Set{Time: row.upgraded, CA: row.kept})
		if (err != nil) != row.refused || row.refused && !strings.Contains(err.Error(), "were rotated since") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
