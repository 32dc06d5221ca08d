package baseline_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/host/baseline"
)

// fill puts more files of others into /opt than are watched.
func (h host) fill() {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Join(h.root, "/opt/many"), 0o755); err != nil {
		h.t.Fatal(err)
	}
	for n := range 50_000 {
		if err := os.Symlink("x", filepath.Join(h.root, fmt.Sprint("/opt/many/", n))); err != nil {
			h.t.Fatal(err)
		}
	}
}

// thin leaves few of them.
func (h host) thin() {
	h.t.Helper()
	for n := range 49_990 {
		h.remove(fmt.Sprint("/opt/many/", n))
	}
}

func (h host) wantNoChangesBelow(folder string) {
	h.t.Helper()
	for path := range h.open().Changes().Files {
		if strings.HasPrefix(path, folder) {
			h.t.Errorf("%s is a change of a step", path)
		}
	}
}

func (h host) wantNoDifferences() {
	h.t.Helper()
	r := h.open()
	now, err := r.Look(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	now.System = r.Before().System
	if different := r.Differences(now); len(different) > 0 {
		h.t.Errorf("%d differences, such as %v", len(different), different[0])
	}
}

// TestOnceTooLargeFolderIsNeverWatched has a folder that was too large before the install, and is not later.
func TestOnceTooLargeFolderIsNeverWatched(t *testing.T) {
	h := newHost(t)
	h.fill()
	r := h.begin("")
	if got := r.Before().Skipped; len(got) != 1 || got[0] != "/opt" {
		t.Fatalf("skipped are %q", got)
	}
	h.thin()
	h.write("/etc/made", "by the step")
	h.note(r, "a/install")
	h.wantNoChangesBelow("/opt")
	h.note(h.begin("b/install"), "c/install")
	h.wantNoChangesBelow("/opt")
	h.wantLeft()
	if _, err := os.Lstat(filepath.Join(h.root, "/opt/many/49999")); err != nil {
		t.Error(err)
	}
	h.wantNoDifferences()
}

// TestFolderThatBecomesTooLargeKeepsItsChanges has others fill a folder after a step.
func TestFolderThatBecomesTooLargeKeepsItsChanges(t *testing.T) {
	h := newHost(t)
	h.write("/opt/theirs", "former")
	r := h.begin("")
	h.write("/opt/made", "by the step")
	h.write("/opt/theirs", "by the step")
	h.note(r, "a/install")
	h.fill()
	h.note(r, "b/install")
	h.thin()
	h.note(h.begin("b/install"), "c/install")
	changes := h.open().Changes().Files
	want := map[string]baseline.Change{"/opt/made": {Step: "a/install"}, "/opt/theirs": {Step: "a/install"}}
	for path, change := range changes {
		if want[path].Step != change.Step || change.File == nil {
			t.Errorf("%s is %+v", path, change)
		}
	}
	if len(changes) != len(want) {
		t.Errorf("%d changes", len(changes))
	}
	h.wantLeft()
	if text, err := os.ReadFile(filepath.Join(h.root, "/opt/theirs")); err != nil || string(text) != "former" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := os.Lstat(filepath.Join(h.root, "/opt/made")); err == nil {
		t.Error("/opt/made is not undone")
	}
	h.wantNoDifferences()
}

// TestChangesOfSkippedFolderInOlderRecordAreLeftAlone has the record of a sealift that looked at a folder again.
func TestChangesOfSkippedFolderInOlderRecordAreLeftAlone(t *testing.T) {
	h := newHost(t)
	h.write("/opt/theirs", "of others")
	h.begin("")
	before := filepath.Join(h.dir, "before.json")
	r := h.open()
	h.write("/opt/found", "of others")
	h.note(r, "a/install")
	text, err := os.ReadFile(before)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(before, []byte(strings.Replace(string(text), `{"files":`, `{"skipped":["/opt"],"files":`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	h.wantNoChangesBelow("/opt")
	h.wantLeft()
	if _, err := os.Lstat(filepath.Join(h.root, "/opt/found")); err != nil {
		t.Error(err)
	}
}
