package view

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sealift/sealift/fleet/configuration"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/strategy"
	"github.com/sealift/sealift/rollout"
)

func progress(t *testing.T, paused bool, known ...rollout.Target) configuration.Progress {
	t.Helper()
	s := ocm.RolloutStrategy{Type: ocm.RolloutProgressive, Progressive: &ocm.RolloutProgression{
		MandatoryDecisionGroups: []ocm.MandatoryDecisionGroup{{GroupName: "canary"}}, MaxConcurrency: new(intstr.FromInt32(2)),
	}}
	s.Progressive.MinSuccessTime.Duration = time.Minute
	plan, err := strategy.New(strategy.Input{
		Change: "new", Strategy: s, Paused: paused, Known: known,
		Groups: []strategy.Group{{Name: "canary", Clusters: []string{"c"}}, {Index: 1, Clusters: []string{"a", "b", "d", "e"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return configuration.Progress{Plan: plan}
}

func TestRolloutPlan(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	done := rollout.Target{Name: "e", Status: rollout.Succeeded, Since: now.Add(-time.Hour)}
	got := simulate(progress(t, false, done), now)
	want := []Step{
		{Wave: "canary", Clusters: []string{"c"}},
		{After: time.Minute, Wave: "rest", Clusters: []string{"a", "b"}},
		{After: time.Minute, Wave: "rest", Clusters: []string{"d"}},
	}
	if !reflect.DeepEqual(got.Steps, want) || len(got.Held) > 0 || !reflect.DeepEqual(got.Unchanged, []string{"e"}) {
		t.Errorf("%+v", got)
	}
	if got = simulate(progress(t, true), now); len(got.Steps) > 0 || got.Held["c"] != rollout.WaitsForResume {
		t.Errorf("paused: %+v", got)
	}
	failed := rollout.Target{Name: "c", Status: rollout.Failed, Since: now}
	if got = simulate(progress(t, false, failed), now); len(got.Steps) > 0 || got.Held["a"] != rollout.WaitsForRepair {
		t.Errorf("the canary failed: %+v", got)
	}
	if got = simulate(configuration.Progress{Err: errors.New("bad")}, now); got.Problem != "bad" {
		t.Errorf("%+v", got)
	}
}
