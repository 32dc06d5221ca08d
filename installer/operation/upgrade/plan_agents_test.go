package upgrade

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/cluster"
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
