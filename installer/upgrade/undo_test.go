package upgrade

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/lifecycle"
	"github.com/sealift/sealift/installer/node"
	"github.com/sealift/sealift/installer/restore"
	"github.com/sealift/sealift/installer/undo"
)

// upgraded makes an install root whose journal has that its node runs a new kubelet.
func upgraded(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	j, err := lifecycle.OpenJournal(node.StateDir(root))
	if err != nil {
		t.Fatal(err)
	}
	step := lifecycle.Step{ID: node.KubeletStep, Phase: lifecycle.Kubelet, Inputs: "new", Timeout: time.Minute,
		Run: func(context.Context) (lifecycle.State, error) { return nil, nil }} //nolint:nilnil // it leaves no state
	if _, err := lifecycle.Run(t.Context(), lifecycle.Upgrading, lifecycle.Plan{step}, j, func(lifecycle.Event) {}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return root
}

// TestOtherNodesAreNotLeftWithANewerKubelet refuses to go back without the API where other nodes may have been upgraded.
func TestOtherNodesAreNotLeftWithANewerKubelet(t *testing.T) {
	t.Parallel()
	root := upgraded(t)
	for name, row := range map[string]struct {
		root    string
		nodes   []string
		kept    time.Time
		refused bool
	}{
		"other nodes come after this one":   {root, []string{"host-1", "host-2"}, time.Now().Add(-time.Hour), true},
		"there are no others":               {root, []string{"host-1"}, time.Now().Add(-time.Hour), false},
		"this node has not been finished":   {t.TempDir(), []string{"host-1", "host-2"}, time.Now().Add(-time.Hour), false},
		"its kubelet came with another one": {root, []string{"host-1", "host-2"}, time.Now().Add(time.Hour), false},
	} {
		u := &Undo{Set: undo.Set{Time: row.kept}, Away: "connection refused", restore: &restore.Restore{Nodes: row.nodes}}
		if err := u.checkAlone(row.root, "host-1"); (err != nil) != row.refused || row.refused && !strings.Contains(err.Error(), "host-2 may run the new version") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
