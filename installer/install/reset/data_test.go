package reset

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/installer/host/baseline"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/sha256hex"
	"github.com/sealift/sealift/internal/testing/short"
)

// ownOpt gives the test an /opt of its own.
func ownOpt(t *testing.T) {
	t.Helper()
	short.Root(t, "mounting")
	runtime.LockOSThread() // the thread has the mounts, and ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", "/opt", "tmpfs", 0, "mode=755"); err != nil {
		t.Fatal(err)
	}
}

// recordOf makes a root with the record of an earlier sealift, in which a step made the files.
func recordOf(t *testing.T, before baseline.State, made ...string) (root string) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "sealift")
	if err := node.MarkRoot(root); err != nil {
		t.Fatal(err)
	}
	changes := baseline.Changes{Files: map[string]baseline.Change{}, Packages: map[string]baseline.Change{}}
	for _, path := range made {
		plant(t, "/", path)
		changes.Files[path] = baseline.Change{Step: "a/install", File: &baseline.File{Mode: 0o600, Size: 2, SHA256: sha256hex.Of([]byte("x\n"))}}
	}
	for name, value := range map[string]any{"before.json": before, "changes.json": changes} {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		plant(t, root, "state/before/"+name)
		if err := os.WriteFile(filepath.Join(root, "state/before", name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestResetKeepsDataOfVolumes(t *testing.T) {
	const made = "/opt/made"
	for name, row := range map[string]struct {
		volume    string
		keep      bool
		installer string
		existed   bool // the folder had files before the install
	}{
		"--keep-data":       {volume: "/opt/local-path-provisioner/pvc-1/data", keep: true},
		"a former folder":   {volume: "/opt/local-path-provisioner/pvc-1/data", existed: true},
		"a folder of users": {volume: "/opt/volumes/pvc-1/data", installer: "localPathProvisioner: {version: 0.0.30, hostPath: /opt/volumes}"},
	} {
		t.Run(name, func(t *testing.T) {
			ownOpt(t)
			root := recordOf(t, baseline.State{Folders: map[string]bool{"/opt/local-path-provisioner": row.existed}}, row.volume, made)
			if row.installer != "" {
				text := "apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: test}\nspec:\n  " + row.installer + "\n"
				if err := os.WriteFile(node.InstallerFile(root), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			r, err := Prepare(Options{Scope: node.Scope{Root: root, LogDir: t.TempDir()}, KeepData: row.keep})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			_, undo, err := r.Undoes()
			if err != nil || !slices.Equal(undo.Removed, []string{made}) {
				t.Errorf("the plan is to remove %q, %v", undo.Removed, err)
			}
			left, err := r.record.UndoFiles(r.elsewhere()...)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(row.volume); err != nil {
				t.Errorf("%v; left %v", err, left)
			}
			if _, err := os.Stat(made); err == nil {
				t.Errorf("%s is still there", made)
			}
		})
	}
}
