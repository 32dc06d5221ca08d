package upgrade

import (
	"testing"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/operation/revert"
)

// TestUpgradeBeginsResumesOrIsRefused has the state that a run plans, and the recorded one.
func TestUpgradeBeginsResumesOrIsRefused(t *testing.T) {
	t.Parallel()
	planned := State{Upgrade: "stop-2", Whole: "whole", Phase: Preparing}
	for name, row := range map[string]struct {
		last       State
		want       string // the upgrade that runs
		on, refuse string
	}{
		"there was none":            {State{}, "stop-2", "", ""},
		"another one is finished":   {State{Upgrade: "old", Whole: "older", Phase: Finished, Snapshot: "/etcd", SnapshotOn: "host-2"}, "stop-2", "", ""},
		"an older sealift's is":     {State{Upgrade: "old", Phase: Finished, Snapshot: "/etcd", SnapshotOn: "host-2"}, "stop-2", "", ""},
		"its first stop is":         {State{Upgrade: "stop-1", Whole: "whole", Phase: Finished, Snapshot: "/etcd", SnapshotOn: "host-2"}, "stop-2", "host-2", ""},
		"it was begun":              {State{Upgrade: "stop-2", Whole: "whole", Phase: Nodes, Snapshot: "/etcd", SnapshotOn: "host-3"}, "stop-2", "host-3", ""},
		"another one changed none":  {State{Upgrade: "old", Phase: Preparing, Nodes: map[string]*Node{"host-1": {Stage: Prepared}}}, "stop-2", "", ""},
		"another one changes nodes": {State{Upgrade: "old", Phase: Nodes, Snapshot: "/etcd", SnapshotOn: "host-2"}, "old", "host-2", "not finished (at nodes)"},
		"another one is at a stop":  {State{Upgrade: "old", Phase: Preparing, Snapshot: "/etcd", SnapshotOn: "host-2"}, "old", "host-2", "not finished (at preparing)"},
	} {
		got, err := planned.after(row.last)
		refusal(t, name, err, row.refuse)
		if got.Upgrade != row.want || got.SnapshotOn != row.on || (got.Snapshot != "") != (row.on != "") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestUnstartedUpgradeIsAbandoned uses a bundle that was corrected after the preparation of nodes had failed.
func TestUnstartedUpgradeIsAbandoned(t *testing.T) {
	t.Parallel()
	nodes := []cluster.Node{{Name: "host-1", Version: "v1.35.4"}}
	for name, row := range map[string]struct {
		begun State
		left  bool
		from  string
	}{
		"another bundle":                {State{Upgrade: "old", Whole: "old", From: "1.34.4", Phase: Preparing}, true, "1.35.4"},
		"the same bundle":               {State{Upgrade: "stop-2", Whole: "whole", From: "1.35.4", Phase: Preparing}, false, "1.35.4"},
		"an earlier stop of it":         {State{Upgrade: "stop-1", Whole: "whole", From: "1.35.4", Phase: Preparing}, false, "1.35.4"},
		"the same of an older sealift":  {State{Upgrade: "stop-2", From: "1.35.4", Phase: Preparing}, false, "1.35.4"},
		"another that changed nodes":    {State{Upgrade: "old", Whole: "old", From: "1.34.4", Phase: Nodes, Snapshot: "/etcd"}, false, "1.34.4"},
		"another at the second version": {State{Upgrade: "old", Whole: "old", From: "1.34.4", Phase: Preparing, Snapshot: "/etcd"}, false, "1.34.4"},
	} {
		c := &Cluster{nodes: nodes, begun: &row.begun}
		if from, err := c.from(); err != nil || from != row.from {
			t.Errorf("%s: from %s, %v", name, from, err)
		}
		if c.abandonUnstarted("whole", "stop-2"); (c.begun == nil) != row.left {
			t.Errorf("%s: left %v", name, c.begun == nil)
		}
	}
}

func TestUndoNamesNodeWithSnapshot(t *testing.T) {
	t.Parallel()
	u := &Undo{own: "host-1", cluster: &Cluster{nodes: []cluster.Node{{Name: "host-1", Ready: true}, {Name: "host-2", Ready: true}, {Name: "host-3", Why: "no power"}}}}
	for on, want := range map[string]string{
		"":       "nothing to undo",
		"host-1": "is gone; restore a snapshot instead",
		"host-2": "node host-2 has the snapshot of etcd that the upgrade took; run the command there",
		"host-3": "is not Ready (no power); bring it back",
		"host-4": "host-4 had the snapshot of etcd that the upgrade took, and has left the cluster",
	} {
		u.cluster.last = State{Snapshot: "/etcd", SnapshotOn: on}
		refusal(t, on, u.elsewhere(revert.ErrNoSnapshot), want)
	}
}
