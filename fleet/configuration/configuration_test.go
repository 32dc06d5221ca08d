package configuration_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sealift/sealift/fleet/configuration"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/strategy"
	"github.com/sealift/sealift/rollout"
)

var deploy = ocm.ConfigType{Group: "addon.open-cluster-management.io", Resource: "addondeploymentconfigs"}

func hashed(name, hash string) *ocm.ConfigHash {
	return &ocm.ConfigHash{ConfigObject: ocm.ConfigObject{Name: name}, SpecHash: hash}
}

// oneByOne is a placement that rolls configuration "c" out to one cluster at a time.
func oneByOne(hash string, clusters ...string) configuration.Placement {
	p := configuration.Placement{ConfigObject: ocm.ConfigObject{Namespace: "default", Name: "all"}}
	p.Strategy.Type = ocm.RolloutProgressive
	p.Strategy.Progressive = &ocm.RolloutProgression{MaxConcurrency: new(intstr.FromInt32(1))}
	p.Strategy.Progressive.MinSuccessTime.Duration = time.Minute
	p.Groups = []strategy.Group{{Clusters: clusters}}
	p.Configs = []ocm.InstallConfigReference{{ConfigType: deploy, DesiredConfig: hashed("c", hash)}}
	return p
}

// fleet acts as the agents: they apply the references of their cluster. The configuration with hash "bad" crashes.
type fleet struct {
	now    time.Time
	addons map[string]*configuration.AddOn
	state  rollout.State
}

func (f *fleet) round(t *testing.T, p configuration.Placement) configuration.Result {
	t.Helper()
	p.State = f.state
	in := configuration.Input{Placements: []configuration.Placement{p}}
	for _, a := range f.addons {
		in.AddOns = append(in.AddOns, *a)
	}
	got := configuration.Decide(in, f.now)
	f.state = got.Placements[0].Rollout.State
	f.now = f.now.Add(20 * time.Second)
	for _, d := range got.AddOns {
		a := f.addons[d.Cluster]
		a.References = d.References
		for i, ref := range a.References {
			if ref.DesiredConfig == nil || ref.LastAppliedConfig != nil && *ref.LastAppliedConfig == *ref.DesiredConfig {
				continue
			}
			a.References[i].LastAppliedConfig = ref.DesiredConfig
			a.Progressing = configuration.Condition{Status: "False", Reason: "Completed", LastTransitionTime: f.now}
			status := "True"
			if ref.DesiredConfig.SpecHash == "bad" {
				status = "False"
			}
			if a.Available.Status != status {
				a.Available = configuration.Condition{Status: status, LastTransitionTime: f.now}
			}
		}
	}
	return got
}

// has lists which hash each cluster has.
func (f *fleet) has() string {
	var words []string
	for _, name := range []string{"a", "b", "c"} {
		word := name + "="
		if refs := f.addons[name].References; len(refs) > 0 {
			word += refs[0].DesiredConfig.SpecHash
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// TestCrashingAddOnStopsAtFirstCluster rolls out a good configuration, then one whose pods crash, then the good one
// again.
func TestCrashingAddOnStopsAtFirstCluster(t *testing.T) {
	f := &fleet{now: newYear, addons: map[string]*configuration.AddOn{}}
	for _, name := range []string{"a", "b", "c"} {
		f.addons[name] = &configuration.AddOn{Cluster: name}
	}
	for range 20 {
		f.round(t, oneByOne("good", "a", "b", "c"))
	}
	if got := f.has(); got != "a=good b=good c=good" {
		t.Fatal(got)
	}
	for range 50 {
		f.round(t, oneByOne("bad", "a", "b", "c"))
	}
	if got := f.has(); got != "a=bad b=good c=good" {
		t.Fatal(got)
	}
	var last configuration.Result
	for range 20 {
		last = f.round(t, oneByOne("good", "a", "b", "c"))
	}
	status := last.Placements[0].Status()
	if got := f.has(); got != "a=good b=good c=good" || !status.Done {
		t.Fatal(got, status)
	}
	if got := status.Configs[0].LastKnownGoodConfig; got == nil || got.SpecHash != "good" {
		t.Errorf("last known good is %v", got)
	}
}

// TestOwnConfigurationDoesNotWait shows X-3: a cluster's own configuration is not part of the rollout.
func TestOwnConfigurationDoesNotWait(t *testing.T) {
	own := ocm.AddOnConfig{ConfigType: deploy, ConfigObject: ocm.ConfigObject{Name: "mine"}}
	had := []ocm.ConfigReference{{ConfigType: deploy, DesiredConfig: hashed("mine", "old"), LastAppliedConfig: hashed("mine", "old")}}
	got := configuration.Refresh(had, []ocm.AddOnConfig{own}, []ocm.ConfigType{deploy}, func(ocm.AddOnConfig) (configuration.Object, bool) {
		return configuration.Object{SpecHash: "new", Generation: 7}, true
	})
	if got[0].DesiredConfig.SpecHash != "new" || got[0].LastObservedGeneration != 7 || had[0].DesiredConfig.SpecHash != "old" {
		t.Errorf("got %+v, and what was given became %+v", got[0], had[0])
	}
	in := configuration.Input{
		Placements: []configuration.Placement{oneByOne("good", "a", "b")},
		AddOns:     []configuration.AddOn{{Cluster: "b", Configs: []ocm.AddOnConfig{own}, References: got}},
	}
	result := configuration.Decide(in, newYear)
	if d := result.AddOns[0]; d.Status != rollout.Working || d.Waits || d.Desired[0].DesiredConfig.Name != "mine" {
		t.Errorf("got %+v", d)
	}
}

// TestEarlierPlacementDoesNotFillGaps shows X-1: a type that the last placement does not configure has the default.
func TestEarlierPlacementDoesNotFillGaps(t *testing.T) {
	first, last := oneByOne("good", "a"), oneByOne("good", "a")
	last.Name, last.Configs = "last", nil
	in := configuration.Input{
		Defaults:    []ocm.AddOnConfig{{ConfigType: deploy, ConfigObject: ocm.ConfigObject{Name: "default"}}},
		DefaultRefs: []ocm.DefaultConfigReference{{ConfigType: deploy, DesiredConfig: hashed("default", "d")}},
		Placements:  []configuration.Placement{first, last},
		AddOns:      []configuration.AddOn{{Cluster: "a"}},
	}
	got := configuration.Decide(in, newYear)
	if d := got.AddOns[0].References; len(d) != 1 || *d[0].DesiredConfig != *hashed("default", "d") {
		t.Errorf("got %+v", d)
	}
	if p := got.Placements[0]; p.Selected != 1 || len(p.Configured) != 0 || p.Status().Done {
		t.Errorf("the first placement configures %v and is %+v", p.Configured, p.Status())
	}
}

// TestBadStrategyStopsOnlyItsPlacement uses an invalid placement beside a valid one.
func TestBadStrategyStopsOnlyItsPlacement(t *testing.T) {
	bad, good := oneByOne("good", "a"), oneByOne("good", "b")
	bad.Name = "bad"
	bad.Strategy.Progressive = &ocm.RolloutProgression{MaxConcurrency: new(intstr.FromString("many"))}
	in := configuration.Input{
		Placements: []configuration.Placement{bad, good},
		AddOns:     []configuration.AddOn{{Cluster: "a"}, {Cluster: "b"}},
	}
	got := configuration.Decide(in, newYear)
	if a, b := got.AddOns[0], got.AddOns[1]; a.Moves || !a.Waits || !b.Moves {
		t.Errorf("got %+v and %+v", a, b)
	}
	const want = "placement default/bad: failed to parse the provided maxConcurrency: 'many' is an invalid maximum threshold value: string is not a percentage"
	if status := got.Placements[0].Status(); status.Done || status.Message != want {
		t.Errorf("got %+v", status)
	}
}

func TestPauseHoldsWaitingClusters(t *testing.T) {
	in := configuration.Input{
		Placements: []configuration.Placement{oneByOne("good", "a", "b")}, Paused: true,
		AddOns: []configuration.AddOn{
			{Cluster: "a", References: []ocm.ConfigReference{{ConfigType: deploy, DesiredConfig: hashed("c", "good")}}}, {Cluster: "b"},
		},
	}
	got := configuration.Decide(in, newYear)
	if a, b := got.AddOns[0], got.AddOns[1]; !a.Moves || b.Moves || !b.Waits || got.Placements[0].Rollout.Phase != rollout.Paused {
		t.Errorf("%s: got %+v and %+v", got.Placements[0].Rollout.Phase, a, b)
	}
}

func TestUnsupportedTypesAreNamed(t *testing.T) {
	own := []ocm.AddOnConfig{{ConfigType: deploy}, {ConfigType: ocm.ConfigType{Group: "core", Resource: "foos"}}}
	if got := configuration.Unsupported(own[:1], []ocm.ConfigType{deploy}); got != "" {
		t.Error(got)
	}
	const want = "Configuration with gvr core/foos is not supported for this addon"
	if got := configuration.Unsupported(own, []ocm.ConfigType{deploy}); got != want {
		t.Error(got)
	}
}

// TestUnsupportedTypesHaveNoNewHash uses an add-on that supports no type: the generation is written, the hash is not.
func TestUnsupportedTypesHaveNoNewHash(t *testing.T) {
	own := ocm.AddOnConfig{ConfigType: deploy, ConfigObject: ocm.ConfigObject{Name: "mine"}}
	had := []ocm.ConfigReference{{ConfigType: deploy, DesiredConfig: hashed("mine", "")}}
	got := configuration.Refresh(had, []ocm.AddOnConfig{own}, nil, func(ocm.AddOnConfig) (configuration.Object, bool) {
		return configuration.Object{SpecHash: "new", Generation: 2}, true
	})
	if got[0].DesiredConfig.SpecHash != "" || got[0].LastObservedGeneration != 2 {
		t.Errorf("got %+v", got[0])
	}
}

// TestNewConfigurationHasNoAppliedHash gives a cluster another object of a type that it has.
func TestNewConfigurationHasNoAppliedHash(t *testing.T) {
	a := configuration.AddOn{Cluster: "a"}
	a.References = []ocm.ConfigReference{{
		ConfigType: deploy, DesiredConfig: hashed("old", "h"), LastAppliedConfig: hashed("old", "h"), LastObservedGeneration: 3,
	}}
	got := configuration.Decide(configuration.Input{Placements: []configuration.Placement{oneByOne("good", "a")}, AddOns: []configuration.AddOn{a}}, newYear)
	refs := got.AddOns[0].References
	if len(refs) != 1 || refs[0].DesiredConfig.Name != "c" || refs[0].LastAppliedConfig != nil || refs[0].LastObservedGeneration != 0 {
		t.Errorf("got %+v", refs)
	}
}

// BenchmarkDecide decides for 10,000 clusters.
func BenchmarkDecide(b *testing.B) {
	var names []string
	in := configuration.Input{}
	for i := range 10000 {
		names = append(names, fmt.Sprint("cluster", i))
		in.AddOns = append(in.AddOns, configuration.AddOn{Cluster: names[i]})
	}
	in.Placements = []configuration.Placement{oneByOne("good", names...)}
	for b.Loop() {
		configuration.Decide(in, newYear)
	}
}
