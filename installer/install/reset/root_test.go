package reset

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/testing/short"
)

// plant makes files below dir: folders where a name ends with a slash.
func plant(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil && strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, 0o755)
		} else if err == nil {
			err = os.WriteFile(path, []byte("x\n"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// names lists the content of dir, with the sizes of files.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if text, err := os.ReadFile(path); err == nil {
			name += " " + string(text)
		}
		list = append(list, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func needRoot(t *testing.T) {
	t.Helper()
	short.Root(t, "a reset")
}

func TestResetKeepsUnmarkedFolder(t *testing.T) {
	needRoot(t)
	for name, files := range map[string][]string{
		"a state folder":                {"state/", "important/f"},
		"an empty journal":              {"state/journal.jsonl", "important/f"},
		"a cut journal":                 {"state/journal.jsonl", "addons/mine"},
		"known names":                   {"state/run.json", "addons/f", "bin/f", "kustomize/f", "index.json"},
		"nothing that sealift could be": {"f"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			plant(t, root, files...)
			if name == "an empty journal" {
				if err := os.Truncate(filepath.Join(root, "state/journal.jsonl"), 0); err != nil {
					t.Fatal(err)
				}
			}
			if name == "a cut journal" {
				if err := os.WriteFile(filepath.Join(root, "state/journal.jsonl"), []byte(`{"step":"a`), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			before := names(t, root)
			o := Options{Scope: node.Scope{Root: root, LogDir: t.TempDir()}}
			if _, err := Prepare(o); !errors.Is(err, ErrNothingInstalled) {
				t.Errorf("prepare: %v", err)
			}
			if diff := cmp.Diff(before, names(t, root)); diff != "" {
				t.Errorf("a plan changed the folder: %s", diff)
			}
			if err := Sweep(o); err != nil {
				t.Errorf("sweep: %v", err)
			}
			if diff := cmp.Diff(before, names(t, root)); diff != "" {
				t.Errorf("a reset changed a folder that is not sealift's: %s", diff)
			}
		})
	}
}

func TestResetRemovesOnlySealiftFiles(t *testing.T) {
	needRoot(t)
	root := t.TempDir()
	plant(t, root, "bin/theirs")
	if err := node.MarkRoot(root); err != nil {
		t.Fatal(err)
	}
	plant(t, root, "bin/sealift-preflight", "addons/a/1/install.sh", "kustomize/", "host-packages/x", "index.json", "state/run.json", "state/lock",
		"state/preflight/1.json", "state/.run.json.123", "notes.txt", "state/theirs", ".install-1-abc/sealift")
	if err := Sweep(Options{Scope: node.Scope{Root: root, LogDir: t.TempDir()}}); err != nil {
		t.Fatal(err)
	}
	want := []string{".", "bin", "bin/sealift-preflight x\n", "bin/theirs x\n", "notes.txt x\n", "state", "state/theirs x\n"}
	if diff := cmp.Diff(want, names(t, root)); diff != "" {
		t.Error(diff)
	}
}

func TestResetOfMarkedFolderLeavesNothing(t *testing.T) {
	needRoot(t)
	root := filepath.Join(t.TempDir(), "sealift")
	if err := node.MarkRoot(root); err != nil {
		t.Fatal(err)
	}
	plant(t, root, "addons/a/1/install.sh", "state/run.json", "state/journal.jsonl", "state/lock")
	if err := os.Truncate(filepath.Join(root, "state/journal.jsonl"), 0); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(Options{Scope: node.Scope{Root: root, LogDir: t.TempDir()}}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is still there, with %q: %v", names(t, root), err)
	}
}
