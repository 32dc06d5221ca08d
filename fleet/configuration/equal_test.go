package configuration_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/sealift/sealift/fleet/configuration"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/strategy"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
	"github.com/sealift/sealift/rollout"
)

// TestDesiredConfigsEqualRows has clusters that have applied some configuration. A rollout is done with those that have what
// their placement says, apart from the types that they name themselves.
func TestDesiredConfigsEqualRows(t *testing.T) {
	type desired map[string][]ocm.ConfigReference
	type row struct {
		AddonConfigs                  []ocm.AddOnConfig
		AddonDesired, StrategyDesired desired
		Expected                      bool
	}
	flat := func(d desired) (list []ocm.ConfigReference) {
		for _, kind := range slices.Sorted(maps.Keys(d)) {
			list = append(list, d[kind]...)
		}
		return list
	}
	for _, r := range upstreamcases.Rows[row](t, controllers+"addonconfiguration__graph__TestDesiredConfigsEqual.json") {
		t.Run(r.Name, func(t *testing.T) {
			a := configuration.AddOn{Cluster: "a", Configs: r.Case.AddonConfigs, References: flat(r.Case.AddonDesired)}
			for i, ref := range a.References {
				a.References[i].LastAppliedConfig = ref.DesiredConfig
			}
			p := configuration.Placement{Groups: []strategy.Group{{Clusters: []string{"a"}}}}
			for _, ref := range flat(r.Case.StrategyDesired) {
				p.Configs = append(p.Configs, ocm.InstallConfigReference{ConfigType: ref.ConfigType, DesiredConfig: ref.DesiredConfig})
			}
			got := configuration.Decide(configuration.Input{Placements: []configuration.Placement{p}, AddOns: []configuration.AddOn{a}}, newYear)
			if done := got.AddOns[0].Status == rollout.Succeeded; done != r.Case.Expected {
				t.Errorf("the rollout status is %s, want done to be %t", got.AddOns[0].Status, r.Case.Expected)
			}
		})
	}
}
