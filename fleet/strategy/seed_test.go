package strategy_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/strategy"
	"github.com/sealift/sealift/rollout"
)

// seedStrategy is the example of OCM's documentation.
const seedStrategy = `
type: Progressive
progressive:
  mandatoryDecisionGroups:
  - groupName: "prod-canary-west"
  - groupName: "prod-canary-east"
  maxConcurrency: 25%
  minSuccessTime: 5m
  progressDeadline: 10m
  maxFailures: 2
`

// simulate rolls out over two canary groups of two clusters each, and fourteen others. A cluster succeeds after two
// minutes, except for the hanging ones. It returns what happened, a line for each minute in which something starts.
func simulate(t *testing.T, hanging ...string) (log []string, end rollout.Result) {
	t.Helper()
	groups := []strategy.Group{
		{Name: "prod-canary-west", Index: 0, Clusters: []string{"west1", "west2"}},
		{Name: "prod-canary-east", Index: 1, Clusters: []string{"east1", "east2"}},
		{Index: 2},
	}
	for i := range 14 {
		groups[2].Clusters = append(groups[2].Clusters, fmt.Sprintf("c%02d", i+1))
	}
	in := strategy.Input{Change: "one", Groups: groups}
	if err := yaml.UnmarshalStrict([]byte(seedStrategy), &in.Strategy); err != nil {
		t.Fatal(err)
	}
	known := map[string]*rollout.Target{}
	stored := []byte(`{}`)
	for minute := range 120 {
		now := newYear.Add(time.Duration(minute) * time.Minute)
		in.Known = nil
		for name, target := range known {
			if now.Sub(target.Since) >= 2*time.Minute && target.Status == rollout.Working && !slices.Contains(hanging, name) {
				target.Status, target.Since = rollout.Succeeded, now
			}
			in.Known = append(in.Known, *target)
		}
		plan, err := strategy.New(in)
		if err != nil {
			t.Fatal(err)
		}
		var state rollout.State
		if err := json.Unmarshal(stored, &state); err != nil {
			t.Fatal(err)
		}
		if end, err = plan.Decide(state, now); err != nil {
			t.Fatal(err)
		}
		if stored, err = json.Marshal(end.State); err != nil {
			t.Fatal(err)
		}
		starts := end.With(rollout.Start)
		if len(starts) > 0 {
			log = append(log, fmt.Sprintf("%d: %s", minute, strings.Join(starts, " ")))
		}
		for _, name := range starts {
			known[name] = &rollout.Target{Name: name, Status: rollout.Working, Since: now}
		}
		if atWork := count(end); atWork > 4 {
			t.Fatalf("minute %d: %d clusters at work", minute, atWork)
		}
		if end.Phase != rollout.Progressing && end.Again.IsZero() {
			return log, end
		}
	}
	t.Fatal("the rollout has no end")
	return nil, end
}

func count(r rollout.Result) (atWork int) {
	for _, d := range r.Targets {
		if d.AtWork {
			atWork++
		}
	}
	return atWork
}

// TestDocumentedStrategyIsFollowed runs the documented example on 18 clusters: 25 % of the 14 that are not canaries are 4 at a time, each
// for 2 minutes and a soak of 5.
func TestDocumentedStrategyIsFollowed(t *testing.T) {
	for _, tt := range []struct {
		name    string
		hanging []string
		want    []string
		phase   rollout.Phase
	}{
		{"all is well", nil, []string{
			"0: west1 west2", "7: east1 east2",
			"14: c01 c02 c03 c04", "21: c05 c06 c07 c08", "28: c09 c10 c11 c12", "35: c13 c14",
		}, rollout.Done},
		{"a canary breaks", []string{"east2"}, []string{"0: west1 west2", "7: east1 east2"}, rollout.Stopped},
		{"one other cluster times out", []string{"c02"}, []string{
			"0: west1 west2", "7: east1 east2",
			"14: c01 c02 c03 c04", "21: c05 c06 c07", "24: c08", "28: c09 c10 c11", "31: c12", "35: c13 c14",
		}, rollout.Ended},
		{"two others time out", []string{"c02", "c03"}, []string{
			"0: west1 west2", "7: east1 east2",
			"14: c01 c02 c03 c04", "21: c05 c06", "24: c07 c08", "28: c09 c10", "31: c11 c12", "35: c13 c14",
		}, rollout.Ended},
		{"three others time out", []string{"c02", "c03", "c05"}, []string{
			"0: west1 west2", "7: east1 east2",
			"14: c01 c02 c03 c04", "21: c05 c06", "24: c07 c08", "28: c09",
		}, rollout.Stopped},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log, end := simulate(t, tt.hanging...)
			t.Logf("starts by minute: %s", strings.Join(log, "; "))
			if !slices.Equal(log, tt.want) || end.Phase != tt.phase {
				t.Errorf("got  %s %q\nwant %s %q", end.Phase, log, tt.phase, tt.want)
			}
		})
	}
}

// TestStrategyDiffersFromUpstreamInFourCases has the four cases of X-10, in which OCM breaks its own rule.
func TestStrategyDiffersFromUpstreamInFourCases(t *testing.T) {
	minute := newYear.Add(-time.Minute)
	for _, tt := range []struct {
		name     string
		strategy string
		groups   []strategy.Group
		known    []rollout.Target
		start    []string
		phase    rollout.Phase
	}{
		{
			name:     "a tolerated timeout after mandatory groups does not stop the rest",
			strategy: `{type: Progressive, progressive: {mandatoryDecisionGroups: [{groupName: canary}], maxFailures: 1, progressDeadline: 30s}}`,
			groups:   []strategy.Group{{Name: "canary", Clusters: []string{"a"}}, {Index: 1, Clusters: []string{"b", "c"}}},
			known: []rollout.Target{
				{Name: "a", Status: rollout.Succeeded, Since: minute}, {Name: "b", Status: rollout.Working, Since: minute},
			},
			start: []string{"c"}, phase: rollout.Progressing,
		},
		{
			name:     "after a breach nothing starts, whatever its name",
			strategy: `{type: Progressive, progressive: {}}`,
			groups:   []strategy.Group{{Clusters: []string{"a", "b"}}},
			known: []rollout.Target{
				{Name: "a", Status: rollout.Waiting, Since: minute}, {Name: "b", Status: rollout.Failed, Since: minute},
			},
			phase: rollout.Stopped,
		},
		{
			name:     "the waiting clusters of a breached group do not start",
			strategy: `{type: ProgressivePerGroup, progressivePerGroup: {}}`,
			groups:   []strategy.Group{{Clusters: []string{"a", "b", "c"}}},
			known:    []rollout.Target{{Name: "b", Status: rollout.Failed, Since: minute}},
			phase:    rollout.Stopped,
		},
		{
			name:     "a timeout does not make up for a cluster that waits",
			strategy: `{type: ProgressivePerGroup, progressivePerGroup: {maxFailures: 1, progressDeadline: 30s}}`,
			groups:   []strategy.Group{{Clusters: []string{"a", "b"}}, {Index: 1, Clusters: []string{"c"}}},
			known:    []rollout.Target{{Name: "a", Status: rollout.Working, Since: minute}},
			start:    []string{"b"}, phase: rollout.Progressing,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := strategy.Input{Groups: tt.groups, Known: tt.known}
			if err := yaml.UnmarshalStrict([]byte(tt.strategy), &in.Strategy); err != nil {
				t.Fatal(err)
			}
			plan, err := strategy.New(in)
			if err != nil {
				t.Fatal(err)
			}
			got, err := plan.Decide(rollout.State{}, newYear)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.With(rollout.Start), tt.start) || got.Phase != tt.phase {
				t.Errorf("got %s %v, want %s %v", got.Phase, got.With(rollout.Start), tt.phase, tt.start)
			}
		})
	}
}

// TestBadValuesStartNothing shows that all values are checked, even those that only count later.
func TestBadValuesStartNothing(t *testing.T) {
	for text, want := range map[string]string{
		`{type: Sometimes}`:                                                     `rollout strategy type "Sometimes" must be All, Progressive or ProgressivePerGroup`,
		`{type: All, all: {progressDeadline: 5hx}}`:                             `time: unknown unit "hx" in duration "5hx"`,
		`{type: All, all: {progressDeadline: xNone}}`:                           `time: invalid duration "xNone"`,
		`{type: Progressive, progressive: {maxFailures: "5"}}`:                  `failed to parse the provided maxFailures: '5' is an invalid maximum threshold value: string is not a percentage`,
		`{type: Progressive, progressive: {maxConcurrency: "x%"}}`:              `failed to parse the provided maxConcurrency: strconv.ParseFloat: parsing "x": invalid syntax`,
		`{type: ProgressivePerGroup, progressivePerGroup: {maxFailures: many}}`: `failed to parse the provided maxFailures: 'many' is an invalid maximum threshold value: string is not a percentage`,
	} {
		in := strategy.Input{Groups: []strategy.Group{{Clusters: []string{"a"}}}}
		if err := yaml.UnmarshalStrict([]byte(text), &in.Strategy); err != nil {
			t.Fatal(err)
		}
		if _, err := strategy.New(in); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	var s ocm.RolloutStrategy
	if err := yaml.UnmarshalStrict([]byte(`{type: Progressive, progressive: {maxConcurency: 1}}`), &s); err == nil {
		t.Error("a misspelled field passes")
	}
}

func FuzzNew(f *testing.F) {
	f.Add(seedStrategy, "west1 west2/east1 east1")
	f.Add(`{type: Progressive, progressive: {maxConcurrency: "NaN%", maxFailures: "1e300%"}}`, "a//b")
	f.Fuzz(func(t *testing.T, text, names string) {
		var in strategy.Input
		if yaml.Unmarshal([]byte(text), &in.Strategy) != nil {
			return
		}
		for i, clusters := range strings.Split(names, "/") {
			in.Groups = append(in.Groups, strategy.Group{Index: int32(i), Clusters: strings.Fields(clusters)})
		}
		plan, err := strategy.New(in)
		if err != nil {
			return
		}
		if _, err := plan.Decide(rollout.State{}, newYear); err != nil {
			t.Fatalf("a plan that was accepted cannot be decided: %v", err)
		}
	})
}
