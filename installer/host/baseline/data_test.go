package baseline_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/host/baseline"
)

// withData opens the record with folders that pods write into.
func (h host) withData(data ...string) *baseline.Record {
	h.t.Helper()
	r, err := baseline.Open(h.dir, baseline.Options{Root: h.root, Skip: []string{"/opt/install"}, Data: data})
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

func (h host) start(r *baseline.Record) {
	h.t.Helper()
	if err := r.Begin(h.t.Context(), ""); err != nil {
		h.t.Fatal(err)
	}
}

// wantKept undoes the install, and checks that the volumes are as they were.
func (h host) wantKept(r *baseline.Record, volumes ...string) {
	h.t.Helper()
	plan, err := r.PlanUndo()
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := r.UndoFiles(); err != nil {
		h.t.Fatal(err)
	}
	for _, path := range volumes {
		if slices.Contains(slices.Concat(plan.Written, plan.Removed), path) {
			h.t.Errorf("%s is planned to be undone", path)
		}
		if text, err := os.ReadFile(filepath.Join(h.root, path)); err != nil || string(text) != "by a pod" {
			h.t.Errorf("%s is %q, %v", path, text, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(h.root, "/opt/made")); err == nil {
		h.t.Error("/opt/made is not undone")
	}
	now, err := r.Look(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	now.System = r.Before().System
	for _, d := range r.Differences(now) {
		if slices.Contains(volumes, d.What) {
			h.t.Errorf("%s %s", d.What, d.Why)
		}
	}
}

// TestVolumesAreNoChangesOfSteps has pods write while a step runs.
func TestVolumesAreNoChangesOfSteps(t *testing.T) {
	h := newHost(t)
	h.write("/opt/volumes/old", "former")
	r := h.withData("/opt/volumes")
	r.Unwatch("/usr/local/data/", "/opt/link")
	if err := os.Symlink(filepath.Join(h.root, "/opt/disk"), filepath.Join(h.root, "/opt/link")); err != nil {
		t.Fatal(err)
	}
	h.write("/opt/disk/old", "former")
	r.Unwatch("/opt/link")
	h.start(r)
	written := []string{"/opt/volumes/old", "/opt/volumes/pvc/new", "/usr/local/data/pvc/new", "/opt/disk/old", "/opt/disk/new"}
	for _, path := range written {
		h.write(path, "by a pod")
	}
	h.write("/opt/made", "by the step")
	h.note(r, "a/install")
	again := h.withData("/opt/volumes") // which does not know the others
	for path := range again.Changes().Files {
		if slices.ContainsFunc([]string{"/opt/volumes/", "/usr/local/data/", "/opt/disk/"}, func(folder string) bool { return strings.HasPrefix(path, folder) }) {
			t.Errorf("%s is a change of the step", path)
		}
	}
	if _, known := again.Before().Files["/opt/volumes"]; !known {
		t.Error("the folder itself is unknown")
	}
	h.wantKept(again, written...)
}

// TestVolumesInOlderRecordsAreKept has changes in volumes that an earlier sealift recorded.
func TestVolumesInOlderRecordsAreKept(t *testing.T) {
	h := newHost(t)
	h.write("/opt/volumes/old", "former")
	r := h.begin("")
	written := []string{"/opt/volumes/old", "/opt/volumes/pvc/new"}
	for _, path := range written {
		h.write(path, "by a pod")
	}
	h.write("/opt/made", "by the step")
	h.note(r, "a/install")
	r = h.withData("/opt/volumes")
	h.start(r)
	h.note(r, "b/install")
	if got := r.Changes().Files["/opt/volumes/old"]; got.Step != "a/install" || got.File == nil {
		t.Errorf("the next step changed the volumes, too: %+v", got)
	}
	h.wantKept(r, written...)
}

func TestExceptionsOfUndoMatchFolders(t *testing.T) {
	h := newHost(t)
	r := h.begin("")
	h.write("/opt/volumes/pvc/new", "by a pod")
	h.write("/opt/volumes2", "by the step")
	h.note(r, "a/install")
	if left, err := h.open().UndoFiles("/opt/volumes"); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	if _, err := os.Lstat(filepath.Join(h.root, "/opt/volumes/pvc/new")); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(h.root, "/opt/volumes2")); err == nil {
		t.Error("/opt/volumes2 is not undone")
	}
}
