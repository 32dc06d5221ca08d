package upgrade

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/installer/operation/revert"
	"github.com/sealift/sealift/installer/recovery/restore"
	"github.com/sealift/sealift/installer/recovery/undo"
)

// newKubelet and wentBack are steps of an upgrade and of its undo, otherRestore one of a restore of another snapshot.
var (
	newKubelet   = [3]string{string(lifecycle.Upgrading), node.KubeletStep, "new"}
	wentBack     = [3]string{string(lifecycle.Restoring), restore.FirstStep, "survivor 20260101T000000Z"}
	otherRestore = [3]string{string(lifecycle.Restoring), restore.FirstStep, "another 20260101T000000Z"}
)

// ran makes an install root whose journal has steps: the operation, the ID and the inputs of each. A step has two records.
func ran(t *testing.T, steps ...[3]string) (root string) {
	t.Helper()
	root = t.TempDir()
	j, err := lifecycle.OpenJournal(node.StateDir(root))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		step := lifecycle.Step{ID: s[1], Phase: lifecycle.Kubelet, Inputs: s[2], Timeout: time.Minute,
			Run: func(context.Context) (lifecycle.State, error) { return nil, nil }} //nolint:nilnil // it leaves no state
		if _, err := lifecycle.Run(t.Context(), lifecycle.Operation(s[0]), lifecycle.Plan{step}, j, func(lifecycle.Event) {}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return root
}

// TestUndoRefusesNewerKubelets refuses an undo without the API where other nodes may have been upgraded.
func TestUndoRefusesNewerKubelets(t *testing.T) {
	t.Parallel()
	both := []string{"host-1", "host-2"}
	again := [3]string{newKubelet[0], newKubelet[1], "newer"} // steps with the same inputs run once
	for name, row := range map[string]struct {
		steps   [][3]string
		nodes   []string
		kept    time.Time
		records int // before the set was kept
		refused bool
	}{
		"other nodes come after this one":        {[][3]string{newKubelet}, both, time.Now().Add(-time.Hour), 0, true},
		"the clock was set back since":           {[][3]string{newKubelet}, both, time.Now().AddDate(1, 2, 0), 1, true},
		"the clock was set ahead since":          {[][3]string{newKubelet}, both, time.Unix(0, 0), 2, false},
		"they have gone back already":            {[][3]string{newKubelet, wentBack}, both, time.Now().Add(-time.Hour), 0, false},
		"they went back, and the clock was lost": {[][3]string{newKubelet, wentBack}, both, time.Now().AddDate(1, 2, 0), 1, false},
		"another snapshot was restored":          {[][3]string{newKubelet, otherRestore}, both, time.Now(), 1, true},
		"they were upgraded again":               {[][3]string{newKubelet, wentBack, again}, both, time.Now(), 1, true},
		"an undo of an earlier upgrade":          {[][3]string{wentBack, newKubelet}, both, time.Now(), 2, true},
		"there are no others":                    {[][3]string{newKubelet}, both[:1], time.Now().Add(-time.Hour), 0, false},
		"this node has not been finished":        {nil, both, time.Now().Add(-time.Hour), 0, false},
		"its kubelet came with another one":      {[][3]string{newKubelet}, both, time.Now().Add(time.Hour), 0, false},
	} {
		u := &Undo{Set: undo.Set{Time: row.kept, Records: row.records}, Away: "connection refused", revert: &revert.Revert{Restore: &restore.Restore{Nodes: row.nodes}}}
		if err := u.checkAlone(ran(t, row.steps...), "host-1"); (err != nil) != row.refused || row.refused && !strings.Contains(err.Error(), "host-2 may already run the new version") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUndoIncludesUpgradedWorkers has workers besides a control plane, which is undone separately. The kubelet of one did not
// start.
func TestUndoIncludesUpgradedWorkers(t *testing.T) {
	t.Parallel()
	const whole, was, now = "0123456789abcdef", "v1.35.4", "v1.36.3"
	set := undo.Set{Upgrade: whole, From: "1.35.4"}
	told := func(of string, operation intent.Operation, state intent.State) intent.Report {
		return intent.Report{Upgrade: of, Operation: operation, State: state}
	}
	prepared, back := told("stop", intent.Prepare, intent.Done), told(whole, intent.Undo, intent.Done)
	for name, row := range map[string]struct {
		version string
		of      *Node
		report  intent.Report
		another bool // the State is about another upgrade
		want    bool
	}{
		"the new version runs":           {now, &Node{Stage: Done}, told("stop", intent.Kubelet, intent.Done), false, true},
		"its kubelet did not start":      {was, &Node{Stage: Upgraded, Error: "not Ready"}, told("stop", intent.Kubelet, intent.Failed), false, true},
		"its error was forgotten":        {was, &Node{Stage: Prepared}, told("stop", intent.Upgrade, intent.Failed), false, true},
		"it could not be asked":          {was, &Node{Stage: Prepared, Error: "no agent"}, prepared, false, true},
		"the same version of Kubernetes": {was, &Node{Stage: Done}, told("stop", intent.Kubelet, intent.Done), false, true},
		"it has files only":              {was, &Node{Stage: Prepared}, prepared, false, false},
		"it has gone back":               {was, &Node{Stage: Done}, back, false, false},
		"it could not go back":           {was, &Node{Stage: Done}, told(whole, intent.Undo, intent.Failed), false, true},
		"its stage is gone":              {was, &Node{}, told(whole, intent.Undo, intent.Failed), false, true},
		"the undo was killed before it":  {was, &Node{}, told("stop", intent.Kubelet, intent.Done), false, true},
		"it and its stage went back":     {was, &Node{}, back, false, false},
		"it joined since":                {now, nil, intent.Report{}, false, true},
		"another upgrade's State":        {was, &Node{Stage: Done}, prepared, true, false},
	} {
		last := State{Upgrade: "stop", Whole: whole, Nodes: map[string]*Node{"host-2": row.of}}
		if row.another {
			last.Whole = "fedcba9876543210"
		}
		nodes := []cluster.Node{{Name: "host-1", Roles: []string{"control-plane"}, Version: now}, {Name: "host-2", Version: row.version}}
		got := workersToUndo(nodes, set, last, map[string]intent.Report{"host-2": row.report})
		if (len(got) == 1 && got[0] == "host-2") != row.want || len(got) > 1 {
			t.Errorf("%s: %v", name, got)
		}
		if row.version == was && len(workersToUndo(nodes, set, State{}, nil)) > 0 {
			t.Errorf("%s, without a State: goes back", name)
		}
	}
}

func TestUndoRefusesNewerWorker(t *testing.T) {
	t.Parallel()
	u := &Undo{Set: undo.Set{Upgrade: "whole"}, Nodes: []string{"host-2", "host-3"}}
	refusal(t, "no API", u.checkKept(), "")
	u.cluster = &Cluster{}
	refusal(t, "no State", u.checkKept(), "")
	u.cluster.last = State{Whole: "whole", Nodes: map[string]*Node{"host-2": {Stage: Done}}}
	refusal(t, "one joined", u.checkKept(), "worker host-3 joined after the upgrade, and keeps nothing to go back to; take it out with 'sealift node remove host-3'")
	u.cluster.last.Nodes["host-3"] = &Node{Stage: Done}
	refusal(t, "both were upgraded", u.checkKept(), "")
}

func TestUndoWaitsForReadyNodesOfOldVersion(t *testing.T) {
	t.Parallel()
	refusal(t, "ready", isOf(cluster.Node{Name: "host-2", Version: "v1.35.4", Ready: true}, "1.35.4"), "")
	refusal(t, "another version", isOf(cluster.Node{Name: "host-2", Version: "v1.36.3", Ready: true}, "1.35.4"), "still runs v1.36.3")
	refusal(t, "no kubelet", isOf(cluster.Node{Name: "host-2", Version: "v1.35.4", Why: "silent"}, "1.35.4"), "host-2 is not Ready (silent); bring it back")
}

// TestOnlySnapshotMembersAreUndone refuses control planes that joined or left since, and those that could not take part.
func TestOnlySnapshotMembersAreUndone(t *testing.T) {
	t.Parallel()
	member := func(name, address string) cluster.EtcdMember {
		return cluster.EtcdMember{Name: name, Peers: []string{"https://" + address + ":2380"}}
	}
	one, two, moved := member("host-1", "10.0.0.1"), member("host-2", "10.0.0.2"), member("host-2", "10.0.0.9")
	for name, row := range map[string]struct {
		was, now []cluster.EtcdMember
		want     string
	}{
		"the same":      {[]cluster.EtcdMember{one, two}, []cluster.EtcdMember{one, two}, ""},
		"one came":      {[]cluster.EtcdMember{one}, []cluster.EtcdMember{one, two}, "host-2 joined"},
		"one left":      {[]cluster.EtcdMember{one, two}, []cluster.EtcdMember{one}, "host-2 has left"},
		"one has moved": {[]cluster.EtcdMember{one, two}, []cluster.EtcdMember{one, moved}, "host-2 joined, or got another address"},
	} {
		refusal(t, name, sameMembers(row.was, row.now), row.want)
	}
	node := func(name string, ready bool, roles ...string) cluster.Node {
		return cluster.Node{Name: name, Ready: ready, Why: "its kubelet is silent", Roles: roles}
	}
	here := map[string]intent.Host{"host-2": {Time: time.Now()}}
	first := node("host-1", true, "control-plane")
	for name, row := range map[string]struct {
		other  cluster.Node
		agents map[string]intent.Host
		want   string
	}{
		"all take part":        {node("host-2", true, "control-plane"), here, ""},
		"a host without power": {node("host-2", false, "control-plane"), here, "host-2 is not Ready (its kubelet is silent)"},
		"no agent":             {node("host-2", true, "control-plane"), nil, "no agent on control plane host-2"},
		"a worker":             {node("host-2", true), here, "host-2 of etcd is not a control plane"},
		"a stranger":           {node("host-3", true, "control-plane"), here, "host-2 of etcd is not a control plane"},
	} {
		refusal(t, name, takePart([]cluster.EtcdMember{one, two}, []cluster.Node{first, row.other}, row.agents, "host-1"), row.want)
	}
}

func TestControlPlaneIsRestoredWhenItReportsThisUndo(t *testing.T) {
	t.Parallel()
	const id = "0123456789abcdef"
	for name, row := range map[string]struct {
		report intent.Report
		want   string
	}{
		"back":            {intent.Report{Upgrade: id, Operation: intent.Undo, State: intent.Done}, ""},
		"armed":           {intent.Report{Upgrade: id, Operation: intent.PrepareUndo, State: intent.Done}, "has not reported it"},
		"another undo":    {intent.Report{Upgrade: "fedcba9876543210", Operation: intent.Undo, State: intent.Done}, "has not reported it"},
		"nothing":         {intent.Report{}, "has not reported it"},
		"its disk failed": {intent.Report{Upgrade: id, Operation: intent.Undo, State: intent.Failed, Error: "no space left"}, "no space left"},
	} {
		refusal(t, name, isBack(row.report, id), row.want)
	}
}

// refusal expects an error with a text, or none for "".
func refusal(t *testing.T, name string, err error, want string) {
	t.Helper()
	if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", name, err, want)
	}
}
