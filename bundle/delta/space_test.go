package delta_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/testing/isolation"
)

func TestTooSmallFolderForPatchedFilesIsRefused(t *testing.T) {
	disk := isolation.NewDisk(t, 32<<20)
	t.Setenv("TMPDIR", disk.Path())
	first, second := packageOf(t, 0), packageOf(t, 1)
	old := opened(t, bundleOf(t, bundle.Bundle{Packages: []*bundle.Archive{first}}))
	a := withBase(t, update(t, earlier(t, old), bundle.Bundle{Packages: []*bundle.Archive{second}}), old)
	dir, needed := a.PatchSpace()
	if dir != disk.Path() || needed < 1_400_000 || needed > 1_500_000 { // a program, a layer, and a base of theirs
		t.Fatalf("%d bytes in %s", needed, dir)
	}

	free := disk.Fill()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	_, read := a.ReadFile("addons/demo/1.1.0/assets/program", 1<<20)
	for what, err := range map[string]error{"verify": a.Verify(t.Context()), "extract": a.Extract(t.Context(), root, func(bundle.Entry) bool { return true }), "read": read} {
		space, ok := errors.AsType[*bundle.SpaceError](err)
		if !ok || !strings.Contains(err.Error(), disk.Path()+" has 0 MiB free") || what != "read" && space.Needed != needed {
			t.Errorf("%s: %v", what, err)
		}
	}
	if names, err := filepath.Glob(root.Name() + "/*"); err != nil || len(names) > 0 {
		t.Errorf("extracted %v, %v", names, err)
	}
	if err := a.Extract(t.Context(), root, func(e bundle.Entry) bool { return strings.HasSuffix(e.Path, "install.sh") }); err != nil {
		t.Errorf("a file without a patch: %v", err)
	}

	free()
	equalsWhole(t, a, second)
	if _, left := a.PatchSpace(); left != 0 {
		t.Errorf("all files are made, and %d bytes are still needed", left)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
