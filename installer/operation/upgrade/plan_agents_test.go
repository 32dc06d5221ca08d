package upgrade

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/operation/intent"
)

// TestAgentsOfEarlierSealiftAreReplaced: an upgrade has something to do for them, even with the running versions.
func TestAgentsOfEarlierSealiftAreReplaced(t *testing.T) {
	c := &Cluster{own: "host-1", nodes: []cluster.Node{{Name: "host-1"}, {Name: "host-2"}, {Name: "host-3"}, {Name: "host-4"}}, described: map[string]intent.Host{
		"host-1": {Signed: true, Time: time.Now()}, "host-2": {Time: time.Now()}, "host-3": {Signed: true, Time: time.Now()}, "host-4": {}, // without an agent
	}}
	p := Plan{Agents: c.unsigned()}
	if !slices.Equal(p.Agents, []string{"host-2"}) || p.Empty() || !strings.Contains(p.String(), "has signed: host-2") {
		t.Errorf("%v, empty %t:\n%s", p.Agents, p.Empty(), p)
	}
	c.described["host-2"] = c.described["host-3"]
	if p := (Plan{Agents: c.unsigned()}); !p.Empty() {
		t.Errorf("%v", p.Agents)
	}
}

// TestNodeThatJoinedWithEarlierVersionIsUpgraded has a worker that joined with the version before while an earlier run began.
func TestNodeThatJoinedWithEarlierVersionIsUpgraded(t *testing.T) {
	for version, older := range map[string]bool{"v1.35.4": true, "v1.36.3": false, "v1.36.10": false, "": false} {
		n := cluster.Node{Name: "host-2", Version: version}
		p := Plan{To: "1.36.3", Nodes: []PlannedNode{{Name: "host-1", Version: "1.36.3"}, {Name: n.Name, Version: strings.TrimPrefix(version, "v")}}}
		var said []string
		tellOlder([]cluster.Node{{Name: "host-1", Version: "v1.36.3"}, n}, p.To, func(line string) { said = append(said, line) })
		if p.Empty() == older || (len(said) == 1) != older || older && !strings.Contains(said[0], "host-2 has joined with Kubernetes 1.35.4") {
			t.Errorf("%q: empty %t, %q", version, p.Empty(), said)
		}
		if p.To = ""; !p.Empty() {
			t.Errorf("%q: a bundle without Kubernetes is older", version)
		}
	}
	has := cluster.Node{Name: "host-1", Version: "v1.36.3"}
	if !unchanged(has, nil, "1.36.3") || unchanged(has, nil, "1.37.2") || unchanged(has, []install.Change{{AddOn: "containerd"}}, "1.36.3") {
		t.Error("pods leave a node that does not change, or stay on one that does")
	}
}
