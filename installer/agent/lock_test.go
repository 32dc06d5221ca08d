package agent

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/installer/recovery/undo"
)

// journaled makes an install root whose node has a journal.
func journaled(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	journal, err := lifecycle.OpenJournal(node.StateDir(root))
	if err == nil {
		err = errors.Join(journal.Begin(), journal.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// TestAgentRefusesWorkOnBusyNode requests each operation that changes a host while another sealift works there.
func TestAgentRefusesWorkOnBusyNode(t *testing.T) {
	root := journaled(t)
	journal, err := lifecycle.OpenJournal(node.StateDir(root))
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	a := &Agent{Root: root, Node: "host-1", Log: slog.New(slog.DiscardHandler)}
	for _, o := range []intent.Operation{
		intent.Prepare, intent.Upgrade, intent.Kubelet, intent.Undo, intent.PrepareUndo, intent.Encrypt, intent.Rotate, intent.Balance, intent.Images,
	} {
		in := intent.Intent{
			Upgrade: "0123456789abcdef", UpgradeID: "0123456789abcdef", Operation: o, Attempt: 1, Server: "127.0.0.1:1",
			Move: &intent.Move{From: "10.0.0.1:6443", To: "10.0.0.2:6443", Stage: "check"},
		}
		if _, err := a.work(t.Context(), in, func(step string) { t.Errorf("%s: %s begins", o, step) }); !errors.Is(err, lifecycle.ErrBusy) {
			t.Errorf("%s: %v, want that the node is busy", o, err)
		}
	}
	if err := a.putBackState(undo.Set{}); !errors.Is(err, lifecycle.ErrBusy) {
		t.Errorf("the state goes back while another sealift works: %v", err)
	}
}

// TestAgentHoldsLockDuringUndo stops an undo at a damaged copy, and checks the lock before.
func TestAgentHoldsLockDuringUndo(t *testing.T) {
	root := journaled(t)
	set, err := undo.Store{Root: root}.Keep("fedcba9876543210", "1.35.4", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	copies, err := filepath.Glob(filepath.Join(filepath.Dir(set.Etcd()), "files", "*"))
	if err != nil || len(copies) == 0 {
		t.Fatal(copies, err)
	}
	for _, name := range copies {
		if err := os.WriteFile(name, []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	locked := false
	in := intent.Intent{Upgrade: set.Upgrade, UpgradeID: set.Upgrade, Operation: intent.Undo, Attempt: 1, From: set.From}
	_, err = (&Agent{Root: root, Node: "host-1"}).work(t.Context(), in, func(string) { locked = locked || lifecycle.Busy(node.StateDir(root)) })
	if err == nil || !strings.Contains(err.Error(), "damaged") || !locked {
		t.Errorf("%v; locked: %v", err, locked)
	}
	if lifecycle.Busy(node.StateDir(root)) {
		t.Error("the lock outlives the undo")
	}
}
