package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
)

// TestNodeIsAdoptedUntilItIsUpgraded follows a node from its adoption to its first upgrade.
func TestNodeIsAdoptedUntilItIsUpgraded(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	record := func(operation lifecycle.Operation, id string) {
		t.Helper()
		journal, err := lifecycle.OpenJournal(node.StateDir(root))
		if err != nil {
			t.Fatal(err)
		}
		defer journal.Close()
		step := lifecycle.Step{ID: id, Inputs: "once", Timeout: time.Minute, Run: func(context.Context) (lifecycle.State, error) { return nil, nil }}
		if _, err := lifecycle.Run(t.Context(), operation, lifecycle.Plan{step}, journal, func(lifecycle.Event) {}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(want bool) {
		t.Helper()
		if got, err := node.Adopted(root); err != nil || got != want {
			t.Errorf("adopted: %t, %v; want %t", got, err, want)
		}
	}
	want(false)
	record(lifecycle.Adopting, "node/agent") // it is killed here, and the agent resumes
	want(true)
	record(lifecycle.Adopting, node.InitStep)
	want(true)
	record(lifecycle.Upgrading, "kubernetes/upgrade")
	want(true)
	record(lifecycle.Upgrading, node.KubeletStep)
	want(false)
	root = t.TempDir()
	record(lifecycle.Installing, node.JoinStep)
	want(false)
}
