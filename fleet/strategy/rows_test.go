package strategy_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/strategy"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
	"github.com/sealift/sealift/rollout"
)

// newYear is the time of all rows.
var newYear = time.Date(2022, 1, 1, 0, 0, 0, 0, time.UTC)

const rows = "fleet/ocm/sdk_go_apis_cluster_v1alpha1__rollout__Test"

type groupKey struct {
	GroupName  string
	GroupIndex int32
}

// status is a ClusterRolloutStatus in both spellings: with a groupKey, and with its members inline.
type status struct {
	ClusterName string
	GroupKey    groupKey
	groupKey
	Status             string
	LastTransitionTime time.Time
	RecheckTime        time.Time
}

type expectation struct {
	ClustersToRollout, ClustersTimeOut, ClustersRemoved []status
	MaxFailureBreach                                    bool
	RecheckAfter                                        string
	Error                                               string
}

// inline moves the group key to where the generated rows have it.
func (e *expectation) inline() {
	for _, list := range [][]status{e.ClustersToRollout, e.ClustersTimeOut, e.ClustersRemoved} {
		for i, s := range list {
			if s.GroupKey != (groupKey{}) {
				list[i].groupKey, list[i].GroupKey = s.GroupKey, groupKey{}
			}
		}
	}
}

var words = map[string]rollout.Status{
	"ToApply": rollout.Waiting, "Progressing": rollout.Working, "Succeeded": rollout.Succeeded,
	"Failed": rollout.Failed, "TimeOut": rollout.TimedOut, "Skip": rollout.Skipped,
}

// run decides, and says it in the words of the rows.
func run(t *testing.T, in strategy.Input, existing map[string]status) expectation {
	t.Helper()
	plan, err := strategy.New(in)
	if err != nil {
		return expectation{Error: err.Error()}
	}
	result, err := plan.Decide(rollout.State{}, newYear)
	if err != nil {
		t.Fatal(err)
	}
	got := expectation{MaxFailureBreach: result.Phase == rollout.Stopped}
	var again time.Duration
	for _, d := range result.Targets {
		g := plan.Groups[d.Name]
		s := status{ClusterName: d.Name, groupKey: groupKey{g.Name, g.Index}, LastTransitionTime: existing[d.Name].LastTransitionTime, RecheckTime: d.Until}
		switch {
		case d.Action == rollout.Start:
			s.Status, s.RecheckTime = "ToApply", time.Time{}
			if in.Strategy.Type == ocm.RolloutProgressivePerGroup {
				s.LastTransitionTime = time.Time{}
			}
		case d.Status == rollout.TimedOut:
			s.Status = "TimeOut"
			got.ClustersTimeOut = append(got.ClustersTimeOut, s)
			continue
		case d.AtWork:
			s.Status = map[rollout.Status]string{rollout.Working: "Progressing", rollout.Failed: "Failed", rollout.Soaking: "Succeeded"}[d.Status]
		default:
			continue
		}
		got.ClustersToRollout = append(got.ClustersToRollout, s)
		if left := s.RecheckTime.Sub(newYear); !s.RecheckTime.IsZero() && (again == 0 || left < again) {
			again = left
		}
	}
	if again > 0 {
		got.RecheckAfter = again.String()
	}
	for _, r := range plan.Removed {
		got.ClustersRemoved = append(got.ClustersRemoved, existing[r.Name])
	}
	return got
}

// same compares what counts: the lists in their order, the breach, the next look, the error.
func same(got, want expectation) bool {
	for _, lists := range [][2][]status{
		{got.ClustersToRollout, want.ClustersToRollout}, {got.ClustersTimeOut, want.ClustersTimeOut}, {got.ClustersRemoved, want.ClustersRemoved},
	} {
		if len(lists[0])+len(lists[1]) > 0 && !reflect.DeepEqual(lists[0], lists[1]) {
			return false
		}
	}
	return got.MaxFailureBreach == want.MaxFailureBreach && got.RecheckAfter == want.RecheckAfter && got.Error == want.Error
}

// decidedOtherwise are rows in which the original program breaks its own rule, and why ours wins.
var decidedOtherwise = map[string]string{
	"gen-128": "X-7: a bad maxConcurrency is found before anything starts",
	"gen-285": "X-7: a bad maxConcurrency is found before anything starts",
	"gen-335": "X-9: every deadline is applied first, so cluster4 has timed out",
}

func TestGeneratedRows(t *testing.T) {
	type row struct {
		Groups []struct {
			groupKey
			Clusters []string
		}
		RolloutStrategy ocm.RolloutStrategy
		Existing        []status
		Expect          expectation
	}
	all := upstreamcases.Rows[row](t, "fleet/ocm/rollout_generated.jsonl")
	equal := 0
	for _, r := range all {
		in := strategy.Input{Strategy: r.Case.RolloutStrategy}
		for _, g := range r.Case.Groups {
			in.Groups = append(in.Groups, strategy.Group{Name: g.GroupName, Index: g.GroupIndex, Clusters: g.Clusters})
		}
		existing := map[string]status{}
		for _, e := range r.Case.Existing {
			existing[e.ClusterName] = e
			in.Known = append(in.Known, rollout.Target{Name: e.ClusterName, Status: words[e.Status], Since: e.LastTransitionTime})
		}
		got := run(t, in, existing)
		if same(got, r.Case.Expect) {
			equal++
		}
		if why := decidedOtherwise[r.Name]; same(got, r.Case.Expect) == (why != "") {
			t.Errorf("%s %s\n%+v\ngot  %+v\nwant %+v", r.Name, why, r.Case, got, r.Case.Expect)
		}
	}
	t.Logf("%d of %d generated rows are equal, %d are decided otherwise on purpose", equal, len(all), len(all)-equal)
}

func TestUnitRows(t *testing.T) {
	type row struct {
		ExistingScheduledClusterGroups map[string][]string
		ExistingWorkloads              []struct {
			ClusterGroup       groupKey
			ClusterName, State string
			LastTransitionTime time.Time
		}
		ExpectRolloutResult expectation
		RolloutStrategy     ocm.RolloutStrategy
	}
	for _, name := range []string{"All", "ClusterAdded", "ClusterRemoved", "Progressive", "ProgressivePerGroup"} {
		for _, r := range upstreamcases.Rows[row](t, rows+"GetRolloutCluster_"+name+".json") {
			t.Run(name+"/"+r.Name, func(t *testing.T) {
				in := strategy.Input{Strategy: r.Case.RolloutStrategy}
				for text, clusters := range r.Case.ExistingScheduledClusterGroups {
					var key groupKey
					if err := json.Unmarshal([]byte(text), &key); err != nil {
						t.Fatal(err)
					}
					in.Groups = append(in.Groups, strategy.Group{Name: key.GroupName, Index: key.GroupIndex, Clusters: clusters})
				}
				existing := map[string]status{}
				for _, w := range r.Case.ExistingWorkloads {
					word := map[string]string{"waiting": "ToApply", "applying": "Progressing", "done": "Succeeded", "failed": "Failed"}[w.State]
					existing[w.ClusterName] = status{ClusterName: w.ClusterName, groupKey: w.ClusterGroup, Status: word, LastTransitionTime: w.LastTransitionTime}
					in.Known = append(in.Known, rollout.Target{Name: w.ClusterName, Status: words[word], Since: w.LastTransitionTime})
				}
				want := r.Case.ExpectRolloutResult
				want.inline()
				if got := run(t, in, existing); !same(got, want) {
					t.Errorf("got  %+v\nwant %+v", got, want)
				}
			})
		}
	}
}

func TestDetermineRolloutStatusRows(t *testing.T) {
	type row struct {
		ClusterStatus                                status
		ExpectRolloutClusters, ExpectTimeOutClusters []status
		MinSuccessTime, Timeout                      string
	}
	for _, r := range upstreamcases.Rows[row](t, rows+"DetermineRolloutStatus.json") {
		t.Run(r.Name, func(t *testing.T) {
			c := r.Case.ClusterStatus
			text := `{"type":"Progressive","progressive":{"minSuccessTime":"` + r.Case.MinSuccessTime + `","progressDeadline":"` + r.Case.Timeout + `"}}`
			in := strategy.Input{
				Groups: []strategy.Group{{Clusters: []string{c.ClusterName}}},
				Known:  []rollout.Target{{Name: c.ClusterName, Status: words[c.Status], Since: c.LastTransitionTime}},
			}
			if err := json.Unmarshal([]byte(text), &in.Strategy); err != nil {
				t.Fatal(err)
			}
			got := run(t, in, map[string]status{c.ClusterName: c})
			want := expectation{ClustersToRollout: r.Case.ExpectRolloutClusters, ClustersTimeOut: r.Case.ExpectTimeOutClusters}
			want.RecheckAfter, want.MaxFailureBreach = got.RecheckAfter, got.MaxFailureBreach
			if !same(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// TestMinRecheckAfterRows gives each cluster a status whose end is the row's time.
func TestMinRecheckAfterRows(t *testing.T) {
	type row struct {
		RolloutClusters      []status
		ExpectedRecheckAfter string
	}
	for _, r := range upstreamcases.Rows[row](t, rows+"MinRecheckAfter.json") {
		t.Run(r.Name, func(t *testing.T) {
			in := strategy.Input{Groups: []strategy.Group{{}}}
			in.Strategy.Type = ocm.RolloutProgressive
			in.Strategy.Progressive = &ocm.RolloutProgression{}
			in.Strategy.Progressive.MinSuccessTime.Duration = time.Hour
			in.Strategy.Progressive.ProgressDeadline = "1h"
			for _, c := range r.Case.RolloutClusters {
				in.Groups[0].Clusters = append(in.Groups[0].Clusters, c.ClusterName)
				if !c.RecheckTime.IsZero() {
					in.Known = append(in.Known, rollout.Target{Name: c.ClusterName, Status: words[c.Status], Since: c.RecheckTime.Add(-time.Hour)})
				}
			}
			if got := run(t, in, nil).RecheckAfter; got != r.Case.ExpectedRecheckAfter {
				t.Errorf("got %s, want %s", got, r.Case.ExpectedRecheckAfter)
			}
		})
	}
}

func TestParseTimeoutRows(t *testing.T) {
	type row struct {
		TimeoutStr, Expected string
		ExpectedError        *struct {
			Text string `json:"$error"`
		}
	}
	for _, r := range upstreamcases.Rows[row](t, rows+"ParseTimeout.json") {
		t.Run(r.Name, func(t *testing.T) {
			got, err := strategy.Deadline(r.Case.TimeoutStr)
			if want := r.Case.ExpectedError; (want == nil) != (err == nil) || err != nil && err.Error() != want.Text {
				t.Fatalf("got error %v, want %+v", err, want)
			}
			const never = "2562047h47m16.854775807s"
			text := never
			if got != nil {
				text = got.String()
			}
			if err == nil && text != r.Case.Expected {
				t.Errorf("got %s, want %s", text, r.Case.Expected)
			}
		})
	}
}

// TestCalculateRolloutSizeRows counts starts among 100 clusters, as the rows do.
func TestCalculateRolloutSizeRows(t *testing.T) {
	type row struct {
		Expected       int
		ExpectedError  any
		MaxConcurrency intstr.IntOrString
	}
	var clusters []string
	for i := range 100 {
		clusters = append(clusters, fmt.Sprint("cluster", i))
	}
	for _, r := range upstreamcases.Rows[row](t, rows+"CalculateRolloutSize.json") {
		t.Run(r.Name, func(t *testing.T) {
			in := strategy.Input{Groups: []strategy.Group{{Clusters: clusters}}}
			in.Strategy.Type = ocm.RolloutProgressive
			in.Strategy.Progressive = &ocm.RolloutProgression{MaxConcurrency: &r.Case.MaxConcurrency}
			got := run(t, in, nil)
			if (got.Error != "") != (r.Case.ExpectedError != nil) {
				t.Fatalf("got error %q, want %v", got.Error, r.Case.ExpectedError)
			}
			if got.Error == "" && len(got.ClustersToRollout) != r.Case.Expected {
				t.Errorf("%d clusters start, want %d", len(got.ClustersToRollout), r.Case.Expected)
			}
		})
	}
}
