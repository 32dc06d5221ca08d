package reset

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/sealift/sealift/installer/host/baseline"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
)

// prepared is a reset of a root with a record, whose steps are done.
func prepared(t *testing.T, root string, o Options) *Reset {
	t.Helper()
	o.Root, o.LogDir = root, t.TempDir()
	journal, err := lifecycle.OpenJournal(node.StateDir(root))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = journal.Close() })
	record, err := node.OpenBaseline(root, o.LogDir)
	if err != nil {
		t.Fatal(err)
	}
	return &Reset{options: o, record: record, Session: &node.Session{Scope: o.Scope, Log: node.NewLog(o.LogDir, lifecycle.Resetting, nil), Journal: journal}}
}

// TestFailedResetKeepsItsRecord has a read-only /etc, for example.
func TestFailedResetKeepsItsRecord(t *testing.T) {
	needRoot(t)
	for name, row := range map[string]struct {
		left   []baseline.Left
		force  bool
		sticks bool
	}{
		"a step failed":              {[]baseline.Left{{What: "restore files", Why: "failed: read-only file system", Failed: true}}, false, true},
		"a step failed, and --force": {[]baseline.Left{{What: "restore files", Why: "failed: read-only file system", Failed: true}}, true, false},
		"something of others stays":  {[]baseline.Left{{What: "/etc/x", Why: "changed by someone else"}}, false, false},
		"nothing failed":             {nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "sealift")
			if err := node.MarkRoot(root); err != nil {
				t.Fatal(err)
			}
			plant(t, root, "state/run.json", "state/before/", "addons/")
			text := []byte(`{"files": {}, "packages": {}, "system": {}, "folders": {}}`)
			if err := os.WriteFile(filepath.Join(root, "state/before/before.json"), text, 0o600); err != nil {
				t.Fatal(err)
			}
			r := prepared(t, root, Options{Force: row.force})
			r.left = row.left
			err := r.finish(*r.record.Before())
			if errors.Is(err, ErrIncomplete) != row.sticks || err != nil && !row.sticks {
				t.Errorf("got %v", err)
			}
			_, err = os.Stat(root)
			if gone := errors.Is(err, fs.ErrNotExist); gone == row.sticks {
				t.Errorf("gone: %t, %v", gone, names(t, root))
			}
			if !row.sticks {
				return
			}
			again := prepared(t, root, Options{})
			if again.record.Before() == nil {
				t.Error("the record of the host is lost")
			}
			if err := again.finish(*again.record.Before()); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(root); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after the next reset: %v", err)
			}
		})
	}
}

func TestFailedStepIsReported(t *testing.T) {
	r := &Reset{Session: &node.Session{Log: node.NewLog(t.TempDir(), lifecycle.Resetting, nil)}}
	run := r.tolerant("restore files", func(context.Context) error { return errors.New("read-only file system") })
	if _, err := run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := baseline.Left{What: "restore files", Why: "failed: read-only file system", Failed: true}
	if len(r.left) != 1 || r.left[0] != want {
		t.Errorf("left %+v", r.left)
	}
}
