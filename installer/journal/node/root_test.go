package node_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/host/baseline"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/testing/short"
)

// TestResetLeavesNoStateFile has every file that any room keeps in the state folder.
func TestResetLeavesNoStateFile(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "sealift")
	made := func() {
		t.Helper()
		if err := node.MarkRoot(root); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{
			node.InstallerFile(root), node.APIServersFile(root), node.SnapshotsFile(root), node.QuiescedFile(root), node.LoadBalancerFile(root), node.AcceptedFile(root), node.TemporaryFile(root, "a"),
			filepath.Join(node.MemoryDir(root), "a"), filepath.Join(node.UndoDir(root), "a"), filepath.Join(node.ReaddressDir(root), "a"), filepath.Join(node.ShelfDir(root), "a"),
			filepath.Join(node.PreflightDir(root), "a"), filepath.Join(node.VolumesDir(root), "a"), node.LastSnapshotFile(root), node.LastDrillFile(root), node.TextfileFile(root),
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
	sweep := func() (left []baseline.Left) {
		t.Helper()
		if _, err := node.SweepRoot(root); err != nil {
			t.Fatal(err)
		}
		left, err := node.SweepState(root, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return left
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
	if left := sweep(); len(left) != 1 || left[0].What != of {
		t.Errorf("told: %v", left)
	}
	if left, err := os.ReadDir(node.StateDir(root)); err != nil || len(left) != 1 || left[0].Name() != filepath.Base(of) {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestResetKnowsEveryStateFile compares the names that node.go gives to files of the state folder with those that a reset removes.
func TestResetKnowsEveryStateFile(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("node.go")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^\t(\w+Name) += "`).FindAllSubmatch(source, -1)
	if len(names) < 10 {
		t.Fatalf("found only %d names", len(names))
	}
	reset, err := os.ReadFile("root.go")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(reset), "func stateNames()")
	list, _, _ = strings.Cut(list, "\n}\n")
	for _, name := range names {
		if !regexp.MustCompile(`\b` + string(name[1]) + `\b`).MatchString(list) {
			t.Errorf("a reset leaves the file of %s", name[1])
		}
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
