package node_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/node"
	"github.com/sealift/sealift/testgrid/short"
)

// TestAResetLeavesNoStateFile has every file that any room keeps in the state folder.
func TestAResetLeavesNoStateFile(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "sealift")
	made := func() {
		t.Helper()
		if err := node.MarkRoot(root); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{
			node.InstallerFile(root), node.APIServersFile(root), node.SnapshotsFile(root), node.QuiescedFile(root), node.LoadBalancerFile(root), node.TemporaryFile(root, "a"),
			filepath.Join(node.MemoryDir(root), "a"), filepath.Join(node.UndoDir(root), "a"), filepath.Join(node.ReaddressDir(root), "a"), filepath.Join(node.ShelfDir(root), "a"),
			filepath.Join(node.PreflightDir(root), "a"), filepath.Join(node.VolumesDir(root), "a"),
			filepath.Join(root, ".index.json.12345"), filepath.Join(root, ".proxy.env.7"), filepath.Join(root, "installer.yaml.sealift-new"), filepath.Join(node.StateDir(root), ".run.json.7"),
		} {
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if err := (node.Run{}).Write(root); err != nil {
			t.Fatal(err)
		}
	}
	sweep := func() {
		t.Helper()
		if _, err := node.SweepRoot(root); err != nil {
			t.Fatal(err)
		}
		if err := node.SweepState(root, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	made()
	sweep()
	if _, err := os.Stat(root); !errors.Is(err, fs.ErrNotExist) {
		left, err := os.ReadDir(node.StateDir(root))
		t.Errorf("left: %v, %v", left, err)
	}
	made()
	of := filepath.Join(node.StateDir(root), "somebody's")
	if err := os.WriteFile(of, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sweep()
	if left, err := os.ReadDir(node.StateDir(root)); err != nil || len(left) != 1 || left[0].Name() != filepath.Base(of) {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestRootInFolderOfAnotherUserIsRefused(t *testing.T) {
	short.AsRoot(t, "a folder of another user")
	home := t.TempDir()
	if err := os.Chown(home, 4242, 4242); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(home, "sealift")
	if err := node.MarkRoot(root); err == nil || !strings.Contains(err.Error(), "belongs to user 4242") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder was made: %v", err)
	}
}
