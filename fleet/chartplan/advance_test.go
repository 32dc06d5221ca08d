package chartplan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/chartplan"
	"github.com/sealift/sealift/rollout"
)

const canaryFirst = `
rolloutStrategy:
  type: Progressive
  progressive:
    mandatoryDecisionGroups: [{groupName: canary}]
    maxConcurrency: 2
    progressDeadline: 10m
decisionGroups:
- groupName: canary
  groupClusterSelector: {labelSelector: {matchLabels: {tier: canary}}}
`

// TestRolloutStopsAfterFailedCluster rolls a chart out over six clusters: the canary first, then two at a time. One fails, and it stops.
func TestRolloutStopsAfterFailedCluster(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	hcp, made, _ := proxy()
	hcp.Annotations = map[string]string{chartplan.RolloutAnnotation: canaryFirst}
	var known []chartplan.Known
	for _, name := range []string{"a", "b", "c", "d", "e", "z"} {
		c := chartplan.Cluster{Namespace: "fleet", Name: name}
		if name == "z" {
			c.Labels = map[string]string{"tier": "canary"}
		}
		known = append(known, chartplan.Known{Cluster: c, Action: chartplan.Create})
	}
	var state rollout.State
	var log []string
	for range 10 {
		got, err := chartplan.Advance(hcp, "v1", known, nil, state, now)
		if err != nil {
			t.Fatal(err)
		}
		state = got.State
		starts := got.With(rollout.Start)
		log = append(log, strings.Join(starts, " "))
		now = now.Add(time.Minute)
		for i, k := range known {
			if !slices.Contains(starts, k.Cluster.Name) {
				continue
			}
			known[i].Action, known[i].Release = chartplan.Keep, made
			status, reason := metav1.ConditionTrue, "Ready"
			if k.Cluster.Name == "c" {
				status, reason = metav1.ConditionFalse, "HelmInstallOrUpgradeFailed"
			}
			known[i].Release.Status.Conditions = []metav1.Condition{
				{Type: "HelmReleaseReady", Status: status, Reason: reason, LastTransitionTime: metav1.Time{Time: now}},
			}
		}
		if len(starts) == 0 {
			if got.Phase != rollout.Stopped {
				t.Errorf("the rollout is %s", got.Phase)
			}
			break
		}
	}
	if want := []string{"z", "a b", "c d", ""}; !slices.Equal(log, want) {
		t.Errorf("starts are %q, want %q", log, want)
	}
	delete(hcp.Annotations, chartplan.RolloutAnnotation)
	got, err := chartplan.Advance(hcp, "v2", known[4:], nil, rollout.State{}, now)
	if err != nil || len(got.With(rollout.Start)) != 1 {
		t.Errorf("without the annotation: %+v %v", got, err)
	}
	for _, bad := range []string{"{rolloutStrategy: {type: Sometimes}}", "{strategy: {}}", "{"} {
		hcp.Annotations[chartplan.RolloutAnnotation] = bad
		if _, err := chartplan.Advance(hcp, "v1", known, nil, rollout.State{}, now); err == nil || !strings.HasPrefix(err.Error(), "annotation fleet.sealift.dev/rollout: ") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestAdvanceSkipsUnreachableCluster rolls out one cluster at a time, and the first has a problem. The next starts if the
// cluster cannot be reached, but not if the hub lacks what all clusters need.
func TestAdvanceSkipsUnreachableCluster(t *testing.T) {
	for reason, want := range map[string][]string{
		"GetClusterFailed": {"b"}, "GetKubeconfigFailed": {"b"}, "NotAvailable": {"b"}, "HelmReleaseGetFailed": {"b"}, "WaitsForParcel": {"b"},
		"GetCredentialsFailed": nil, "GetCACertificateFailed": nil,
	} {
		now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		hcp, made, _ := proxy()
		hcp.Annotations = map[string]string{chartplan.RolloutAnnotation: "rolloutStrategy: {type: Progressive, progressive: {maxConcurrency: 1}}"}
		known := []chartplan.Known{{Cluster: chartplan.Cluster{Name: "a"}, Action: chartplan.Create}, {Cluster: chartplan.Cluster{Name: "b"}, Action: chartplan.Create}}
		got, err := chartplan.Advance(hcp, "v1", known, nil, rollout.State{}, now)
		if err != nil || !slices.Equal(got.With(rollout.Start), []string{"a"}) {
			t.Fatalf("%+v %v", got, err)
		}
		known[0].Action, known[0].Release = chartplan.Keep, made
		known[0].Release.Generation = 1
		known[0].Release.Status.Conditions = []metav1.Condition{{
			Type: "ClusterAvailable", Status: metav1.ConditionFalse, Reason: reason, LastTransitionTime: metav1.Time{Time: now}, ObservedGeneration: 1,
		}}
		got, err = chartplan.Advance(hcp, "v1", known, nil, got.State, now.Add(time.Minute))
		if err != nil || !slices.Equal(got.With(rollout.Start), want) {
			t.Errorf("%s: %+v %v", reason, got, err)
		}
		if stopped := got.Phase == rollout.Stopped; stopped != (want == nil) {
			t.Errorf("%s: the rollout is %s", reason, got.Phase)
		}
	}
}

// TestAdvanceReinstalls changes what makes a reinstall necessary, on a canary and two other clusters. Each cluster keeps its turn from
// the removal of its old release until the new one is ready.
func TestAdvanceReinstalls(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	hcp, made, _ := proxy()
	hcp.Annotations = map[string]string{chartplan.RolloutAnnotation: strings.Replace(canaryFirst, "maxConcurrency: 2", "maxConcurrency: 1", 1)}
	var known []chartplan.Known
	for _, name := range []string{"a", "b", "z"} {
		c := chartplan.Cluster{Namespace: "fleet", Name: name}
		if name == "z" {
			c.Labels = map[string]string{"tier": "canary"}
		}
		known = append(known, chartplan.Known{Cluster: c, Action: chartplan.Reinstall, Release: made})
	}
	var state rollout.State
	step := func(what string, want ...string) {
		t.Helper()
		got, err := chartplan.Advance(hcp, "v2", known, nil, state, now)
		if err != nil || !slices.Equal(got.With(rollout.Start), want) {
			t.Fatalf("%s: %+v %v", what, got, err)
		}
		state, now = got.State, now.Add(time.Minute)
	}
	for _, i := range []int{2, 0, 1} {
		k := &known[i]
		step("the old release is there", k.Cluster.Name)
		k.Action, k.Release.DeletionTimestamp = chartplan.Keep, &metav1.Time{Time: now}
		step("it is being removed")
		k.Action, k.Release = chartplan.Create, caaph.HelmReleaseProxy{}
		step("it is gone", k.Cluster.Name)
		k.Action, k.Release = chartplan.Keep, made
		step("the new one is there")
		k.Release.Status.Conditions = []metav1.Condition{{Type: "HelmReleaseReady", Status: metav1.ConditionTrue, LastTransitionTime: metav1.Time{Time: now}}}
	}
	step("all are ready")
}

// TestAdvanceWaitsForBlockedCanary has a canary where nothing can be done now.
func TestAdvanceWaitsForBlockedCanary(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	hcp, made, _ := proxy()
	hcp.Annotations = map[string]string{chartplan.RolloutAnnotation: canaryFirst}
	ready := *made.DeepCopyObject().(*caaph.HelmReleaseProxy)
	ready.Status.Conditions = []metav1.Condition{{Type: "HelmReleaseReady", Status: metav1.ConditionTrue, LastTransitionTime: metav1.Time{Time: now}}}
	for name, tt := range map[string]struct {
		canary chartplan.Known
		want   []string
	}{
		"its values cannot be rendered":             {chartplan.Known{}, nil},
		"those of its next release cannot, either":  {chartplan.Known{Release: ready}, nil},
		"it is paused before its turn":              {chartplan.Known{Action: chartplan.Update, Release: ready}, nil},
		"it is paused in the middle":                {chartplan.Known{Action: chartplan.Keep, Release: made}, nil},
		"it is paused, and has what it should have": {chartplan.Known{Action: chartplan.Keep, Release: ready}, []string{"a"}},
	} {
		tt.canary.Blocked = true
		tt.canary.Cluster = chartplan.Cluster{Name: "z", Labels: map[string]string{"tier": "canary"}}
		known := []chartplan.Known{{Cluster: chartplan.Cluster{Name: "a"}, Action: chartplan.Create}, tt.canary}
		got, err := chartplan.Advance(hcp, "v2", known, nil, rollout.State{}, now)
		if err != nil || !slices.Equal(got.With(rollout.Start), tt.want) {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
}
