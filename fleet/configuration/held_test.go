package configuration_test

import (
	"testing"

	"github.com/sealift/sealift/fleet/configuration"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/rollout"
)

// TestHeldClusterDelaysItsChange shows that a change does not start on a cluster that waits for another add-on, with a placement and
// without one.
func TestHeldClusterDelaysItsChange(t *testing.T) {
	in := configuration.Input{
		Placements: []configuration.Placement{oneByOne("good", "a", "b")},
		AddOns:     []configuration.AddOn{{Cluster: "a"}, {Cluster: "b"}, {Cluster: "c"}},
		Defaults:   []ocm.AddOnConfig{{ConfigType: deploy, ConfigObject: ocm.ConfigObject{Name: "c"}}},
		Held:       map[string]string{"a": "waits", "c": "waits"},
	}
	got := configuration.Decide(in, newYear)
	for i, want := range []struct{ moves, waits bool }{{false, true}, {true, false}, {false, true}} {
		if d := got.AddOns[i]; d.Moves != want.moves || d.Waits != want.waits {
			t.Errorf("%s moves %v and waits %v", d.Cluster, d.Moves, d.Waits)
		}
	}
	if reason := got.Placements[0].Rollout.Targets[0].Reason; reason != rollout.WaitsForOthers {
		t.Errorf("a waits for %s", reason)
	}
}
