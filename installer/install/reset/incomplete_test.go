package reset

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
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

// TestResetWithoutCredentialsSaysHowTheNodeLeaves has hosts without the files of kubeadm.
func TestResetWithoutCredentialsSaysHowTheNodeLeaves(t *testing.T) {
	if _, err := os.Stat(kubeadm.Folder); err == nil {
		t.Skip("this host is a node")
	}
	for name, row := range map[string]struct {
		steps []lifecycle.Record
		says  bool
	}{
		"an install that did not come to a cluster": {[]lifecycle.Record{{Step: "containerd/install", Outcome: lifecycle.Finished}, {Step: node.InitStep, Outcome: lifecycle.Failed}}, false},
		"a reset that was killed before":            {[]lifecycle.Record{{Step: node.ResetStep, Outcome: lifecycle.Started}}, false},
		"a reset that was killed in kubeadm's step": {[]lifecycle.Record{{Step: node.ResetStep, Outcome: lifecycle.Finished}, {Step: kubeadmStep, Outcome: lifecycle.Started}}, true},
		"a reset that was killed later":             {[]lifecycle.Record{{Step: kubeadmStep, Outcome: lifecycle.Finished}, {Step: "reset/services", Outcome: lifecycle.Started}}, true},
		"a node from which another took kubeadm's":  {[]lifecycle.Record{{Step: node.JoinStep, Outcome: lifecycle.Finished}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "sealift")
			var text []byte
			for _, rec := range row.steps {
				line, err := json.Marshal(rec)
				if err != nil {
					t.Fatal(err)
				}
				text = append(append(text, line...), '\n')
			}
			plant(t, root, "state/lock", "state/journal.jsonl")
			if err := os.WriteFile(lifecycle.JournalFile(node.StateDir(root)), text, 0o600); err != nil {
				t.Fatal(err)
			}
			r := prepared(t, root, Options{})
			r.node = "host-2"
			if err := r.leave(t.Context()); err != nil {
				t.Fatal(err)
			}
			if says := len(r.left) == 1 && strings.Contains(r.left[0].Why, "sealift node remove host-2"); says != row.says || !says && len(r.left) > 0 {
				t.Errorf("left %+v", r.left)
			}
		})
	}
}
