package baseline_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/host/baseline"
	"github.com/sealift/sealift/internal/testing/isolation"
)

// host is a file system to be changed, and its record.
type host struct {
	t    *testing.T
	root string
	dir  string
}

func newHost(t *testing.T) host {
	t.Helper()
	h := host{t, t.TempDir(), filepath.Join(t.TempDir(), "before")}
	h.write("/etc/kept", "kept")
	h.write("/etc/edited", "former")
	h.write("/etc/removed", "gone")
	h.write("/usr/local/bin/tool", "tool")
	h.write("/opt/install/binary", "not watched")
	if err := os.Chmod(filepath.Join(h.root, "/etc/edited"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("kept", filepath.Join(h.root, "/etc/link")); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h host) write(path, content string) {
	h.t.Helper()
	name := filepath.Join(h.root, path)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

func (h host) remove(paths ...string) {
	h.t.Helper()
	for _, path := range paths {
		if err := os.Remove(filepath.Join(h.root, path)); err != nil {
			h.t.Fatal(err)
		}
	}
}

// open opens the record again, as the next process does.
func (h host) open() *baseline.Record {
	h.t.Helper()
	r, err := baseline.Open(h.dir, baseline.Options{Root: h.root, Skip: []string{"/opt/install"}, Folders: []string{"/var/lib/data", "/var/lib/empty"}})
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

func (h host) begin(open string) *baseline.Record {
	h.t.Helper()
	r := h.open()
	if err := r.Begin(h.t.Context(), open); err != nil {
		h.t.Fatal(err)
	}
	return r
}

func (h host) note(r *baseline.Record, step string) {
	h.t.Helper()
	if err := r.Note(h.t.Context(), step); err != nil {
		h.t.Fatal(err)
	}
}

// tree lists all files with their distinguishing attributes.
func (h host) tree() (lines []string) {
	h.t.Helper()
	err := filepath.WalkDir(h.root, func(name string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(name)
		if err != nil {
			return err
		}
		line := strings.TrimPrefix(name, h.root) + " " + info.Mode().String()
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			line += " " + string(content) + " " + info.ModTime().Format(time.RFC3339Nano)
		} else if info.Mode()&os.ModeSymlink != 0 {
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			line += " " + target
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return lines
}

func (h host) undo() (left []string) {
	h.t.Helper()
	found, err := h.open().UndoFiles()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, l := range found {
		left = append(left, l.What+": "+l.Why)
	}
	return left
}

func (h host) wantLeft(want ...string) {
	h.t.Helper()
	left := h.undo()
	ok := len(left) == len(want)
	for i := range min(len(left), len(want)) {
		ok = ok && strings.Contains(left[i], want[i])
	}
	if !ok {
		h.t.Errorf("left %q, want %q", left, want)
	}
}

// change makes changes as an install might.
func (h host) change() {
	h.remove("/etc/removed", "/etc/link")
	h.write("/etc/edited", "by the install")
	h.write("/etc/new/folder/file", "new")
	h.write("/opt/install/addons/file", "not watched")
}

func TestInstallChangesAreReverted(t *testing.T) {
	h := newHost(t)
	before := h.tree()
	r := h.begin("")
	h.change()
	h.note(r, "a/install")
	h.wantLeft()
	if err := os.RemoveAll(filepath.Join(h.root, "/opt/install/addons")); err != nil {
		t.Fatal(err)
	}
	if after := h.tree(); !slices.Equal(after, before) {
		t.Errorf("before\n%s\nafter\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
	h.wantLeft() // again
}

func TestAdministratorChangesAreKept(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(host)
		left   []string
	}{
		{"a file that the install made", func(h host) { h.write("/etc/new/folder/file", "mine") },
			[]string{"/etc/new/folder/file: changed by someone else after step a/install"}},
		{"a file that was there before", func(h host) { h.write("/etc/edited", "mine") }, []string{"/etc/edited: changed by someone else"}},
		{"a file beside one that the install made", func(h host) { h.write("/etc/new/mine", "mine") },
			[]string{"/etc/new: has files that this install did not make, such as mine"}},
		{"a file that the install removed", func(h host) { h.write("/etc/removed", "mine") }, []string{"/etc/removed: changed by someone else"}},
		{"a file of others", func(h host) { h.write("/etc/kept", "mine") }, nil},
		{"a file of the install, back to what it was", func(h host) { h.write("/etc/removed", "gone") }, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := newHost(t)
			r := h.begin("")
			h.change()
			h.note(r, "a/install")
			row.change(h)
			h.wantLeft(row.left...)
			if content, err := os.ReadFile(filepath.Join(h.root, "/etc/kept")); err != nil || row.name == "a file of others" && string(content) != "mine" {
				t.Errorf("%q, %v", content, err)
			}
		})
	}
}

func TestChangesBetweenRunsAreIgnoredUnlessStepWasKilled(t *testing.T) {
	for open, want := range map[string]int{"": 0, "a/install": 1} {
		h := newHost(t)
		h.begin("")
		h.write("/etc/between", "runs")
		h.begin(open)
		if got := len(h.open().Changes().Files); got != want {
			t.Errorf("open step %q: %d changes, want %d", open, got, want)
		}
	}
}

func TestStepUndoneByAnotherChangedNothing(t *testing.T) {
	h := newHost(t)
	r := h.begin("")
	h.write("/etc/new", "1")
	h.note(r, "a/install")
	r = h.begin("")
	h.remove("/etc/new")
	h.note(r, "b/install")
	if changes := h.open().Changes().Files; len(changes) != 0 {
		t.Errorf("%v", changes)
	}
}

func TestOversizedFileIsReported(t *testing.T) {
	h := newHost(t)
	h.write("/usr/local/bin/large", strings.Repeat("x", 2<<20))
	r := h.begin("")
	h.write("/usr/local/bin/large", "small")
	h.note(r, "a/install")
	h.wantLeft("/usr/local/bin/large: replaced by step a/install; it was too large")
}

func TestDamagedBaselineRestoresNothing(t *testing.T) {
	h := newHost(t)
	r := h.begin("")
	h.change()
	h.note(r, "a/install")
	name := filepath.Join(h.dir, "before.tar.gz")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data[:len(data)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.open().UndoFiles(); err == nil {
		t.Error("no error")
	}
	if content, err := os.ReadFile(filepath.Join(h.root, "/etc/edited")); err != nil || string(content) != "by the install" && string(content) != "former" {
		t.Errorf("%q, %v", content, err)
	}
}

func TestFoldersAreRecordedWithTheirContent(t *testing.T) {
	h := newHost(t)
	h.write("/var/lib/data/volume", "1")
	if err := os.Symlink("/srv/empty", filepath.Join(h.root, "/var/lib/empty")); err != nil {
		t.Fatal(err)
	}
	before := h.begin("").Before()
	if got := before.Folders; !got["/var/lib/data"] || got["/var/lib/empty"] {
		t.Errorf("%v", got)
	}
	if got := before.Links; len(got) != 1 || got["/var/lib/empty"] != "/srv/empty" {
		t.Errorf("links %v", got)
	}
}

func TestDifferencesNameTopmostNewFolder(t *testing.T) {
	h := newHost(t)
	r := h.begin("")
	h.write("/etc/new/folder/file", "new")
	h.write("/etc/kept", "otherwise")
	h.remove("/etc/removed")
	now, err := baseline.Look(t.Context(), baseline.Options{Root: h.root, Skip: []string{"/opt/install"}})
	if err != nil {
		t.Fatal(err)
	}
	now.System = r.Before().System
	var got []string
	for _, d := range r.Differences(now) {
		got = append(got, d.What+" "+d.Why)
	}
	if want := []string{"/etc/kept differs from before", "/etc/new was not there before", "/etc/removed was there before"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestStepOutputIsSyncedBeforeItIsRecorded cuts the power of a separate disk for one of the folders.
func TestStepOutputIsSyncedBeforeItIsRecorded(t *testing.T) {
	h := newHost(t)
	d := isolation.NewDisk(t, 32<<20)
	if err := os.MkdirAll(filepath.Join(h.root, "/var/lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(d.Path(), filepath.Join(h.root, "/var/lib/data")); err != nil {
		t.Fatal(err)
	}
	r := h.begin("")
	h.write("/var/lib/data/noted", "noted")
	h.note(r, "a")
	h.write("/var/lib/data/unnoted", "unnoted")
	d.CutPower()
	if err := d.Restore(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(d.Path(), "noted")); err != nil || string(text) != "noted" {
		t.Errorf("what was noted is %q, %v", text, err)
	}
	if text, err := os.ReadFile(filepath.Join(d.Path(), "unnoted")); err == nil && len(text) > 0 {
		t.Errorf("what was not noted is %q: the power was not lost", text)
	}
}

// TestForgottenFilesAreRevertedToo uses a foreign file that is to be removed with the install's, and another that stays.
func TestForgottenFilesAreRevertedToo(t *testing.T) {
	h := newHost(t)
	h.write("/etc/cluster", "of others")
	r := h.open()
	forget := func(s *baseline.State) { delete(s.Files, "/etc/cluster") }
	if err := r.BeginWithout(t.Context(), "", forget); err != nil {
		t.Fatal(err)
	}
	h.write("/etc/made", "ours")
	h.note(r, "first")
	if err := h.open().BeginWithout(t.Context(), "", func(*baseline.State) { t.Error("the baseline is taken twice") }); err != nil {
		t.Fatal(err)
	}
	h.wantLeft()
	tree := strings.Join(h.tree(), "\n")
	if strings.Contains(tree, "/etc/cluster") || strings.Contains(tree, "/etc/made") || !strings.Contains(tree, "/etc/kept") {
		t.Errorf("after the reset:\n%s", tree)
	}
}
