package upgrade

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/intent"
	"github.com/sealift/sealift/installer/lifecycle"
	"github.com/sealift/sealift/installer/node"
	"github.com/sealift/sealift/installer/restore"
	"github.com/sealift/sealift/installer/revert"
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
		resumes bool
		refused bool
	}{
		"other nodes come after this one":   {root, []string{"host-1", "host-2"}, time.Now().Add(-time.Hour), false, true},
		"they have gone back already":       {root, []string{"host-1", "host-2"}, time.Now().Add(-time.Hour), true, false},
		"there are no others":               {root, []string{"host-1"}, time.Now().Add(-time.Hour), false, false},
		"this node has not been finished":   {t.TempDir(), []string{"host-1", "host-2"}, time.Now().Add(-time.Hour), false, false},
		"its kubelet came with another one": {root, []string{"host-1", "host-2"}, time.Now().Add(time.Hour), false, false},
	} {
		u := &Undo{Set: undo.Set{Time: row.kept}, Away: "connection refused", revert: &revert.Revert{Restore: &restore.Restore{Nodes: row.nodes, Resumes: row.resumes}}}
		if err := u.checkAlone(row.root, "host-1"); (err != nil) != row.refused || row.refused && !strings.Contains(err.Error(), "host-2 may run the new version") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOnlyTheMembersOfTheSnapshotGoBack refuses control planes that came or left since, and those that could not take their part.
func TestOnlyTheMembersOfTheSnapshotGoBack(t *testing.T) {
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

func TestAControlPlaneIsBackWhenItTellsOfThisUndo(t *testing.T) {
	t.Parallel()
	const id = "0123456789abcdef"
	for name, row := range map[string]struct {
		report intent.Report
		want   string
	}{
		"back":            {intent.Report{Upgrade: id, Operation: intent.Undo, State: intent.Done}, ""},
		"armed":           {intent.Report{Upgrade: id, Operation: intent.Arm, State: intent.Done}, "has not told"},
		"another undo":    {intent.Report{Upgrade: "fedcba9876543210", Operation: intent.Undo, State: intent.Done}, "has not told"},
		"nothing":         {intent.Report{}, "has not told"},
		"its disk failed": {intent.Report{Upgrade: id, Operation: intent.Undo, State: intent.Failed, Error: "no space left"}, "no space left"},
	} {
		refusal(t, name, isBack(row.report, id), row.want)
	}
}

// refusal wants an error with a text, or none for "".
func refusal(t *testing.T, name string, err error, want string) {
	t.Helper()
	if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", name, err, want)
	}
}
