package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sealift/sealift/internal/atomicfile"
)

// deb builds a package of Debian's.
func deb(t *testing.T, dir, name, fields string) {
	t.Helper()
	tree := t.TempDir()
	if err := os.MkdirAll(filepath.Join(tree, "DEBIAN"), 0o755); err != nil {
		t.Fatal(err)
	}
	control := "Package: " + name + "\nVersion: 1.0\nArchitecture: all\nMaintainer: Nobody <nobody@example.org>\nDescription: a test\n of two lines\n" + fields
	if err := os.WriteFile(filepath.Join(tree, "DEBIAN", "control"), []byte(control), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "dpkg-deb", "--build", tree, filepath.Join(dir, name+"_1.0_all.deb")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestAptInstallsFromFolderOfDebs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ubuntu-22.04", "archives")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	deb(t, dir, "sealift-test-tool", "Depends: sealift-test-lib (= 1.0)\n")
	deb(t, dir, "sealift-test-lib", "")
	files, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		t.Fatal(err)
	}
	index, names, err := debIndex(t.Context(), files)
	if err != nil || !slices.Equal(names, []string{"sealift-test-lib", "sealift-test-tool"}) {
		t.Fatalf("%v, %v", names, err)
	}
	if err := atomicfile.Write(filepath.Join(dir, AptIndex), index); err != nil {
		t.Fatal(err)
	}
	apt := APT{Dir: t.TempDir(), Repositories: []string{dir}, Output: t.Output()}
	if err := apt.prepare(); err != nil {
		t.Fatal(err)
	}
	if err := apt.run(t.Context(), "update"); err != nil {
		t.Fatal(err)
	}
	if err := apt.run(t.Context(), "install", "--simulate", "--yes", "--no-remove", "--", "sealift-test-tool"); err != nil {
		t.Error(err)
	}
}

func TestNonDebFileIsNamed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.deb"), []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (Files{Dir: dir, Work: t.TempDir(), Output: t.Output()}).Install(t.Context(), []string{"x"}); err == nil {
		t.Error("junk was installed")
	}
}
