package packages_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/store"
)

// kURL's server makes one archive of the packages between two versions. Its name is not a version's.
func TestMultiPackageArchivesAreNotVersions(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"rook-1.5.12.tar.gz", "rook-1.19.7.tar.gz", "rook-1.4.9,rook-1.5.12.tar.gz", "rook-1.20.0,rook-1.21.0.tar.gz", "rook-ceph-1.0.0.tar.gz"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	opened, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	source := packages.Source{Store: opened}
	got, err := source.Versions(t.Context(), "rook")
	slices.Sort(got)
	if err != nil || !slices.Equal(got, []string{"1.19.7", "1.5.12"}) {
		t.Errorf("got %v, %v", got, err)
	}
	resolved, err := source.Resolve(t.Context(), []spec.AddOn{{Name: "rook", Key: "rook", Version: "latest"}})
	if err != nil || resolved[0].Version != "1.19.7" {
		t.Errorf("got %v, %v", resolved, err)
	}
	index, err := source.List(t.Context())
	if err != nil || len(index.Packages) != 3 {
		t.Errorf("got %+v, %v", index, err)
	}
}
