package bundle_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sealift/sealift/bundle"
)

func TestVerdictLiesBesideArchive(t *testing.T) {
	dir := t.TempDir()
	second := filepath.Join(dir, "second")
	if err := os.Mkdir(second, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		filepath.Join(dir, "cluster.tar.gz"):          filepath.Join(dir, "cluster.verdict.json"),
		filepath.Join(dir, "cluster.tgz"):             filepath.Join(dir, "cluster.verdict.json"),
		dir + "/":                                     filepath.Join(dir, "verdict.json"),
		second + string(os.PathListSeparator) + dir:   filepath.Join(second, "verdict.json"),
		filepath.Join(dir, "v1.2", "absent-1.tar.gz"): filepath.Join(dir, "v1.2", "absent-1.verdict.json"),
	} {
		if got := bundle.VerdictFile(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
