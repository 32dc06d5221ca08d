package placement

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
)

var newYear = time.Date(2022, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	scheduling = "fleet/ocm/ocm_placement_controllers_scheduling__"
	plugins    = "fleet/ocm/ocm_placement_plugins_"
)

// objects are the objects of a row, by their kind.
type objects struct {
	clusters  []*ocm.ManagedCluster
	sets      []ocm.ManagedClusterSet
	bindings  []ocm.ManagedClusterSetBinding
	decisions []ocm.PlacementDecision
	scores    []ocm.AddOnPlacementScore
}

func (o *objects) UnmarshalJSON(data []byte) error {
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	for _, text := range list {
		var kind struct {
			Type string `json:"$type"`
		}
		if err := json.Unmarshal(text, &kind); err != nil {
			return err
		}
		var err error
		switch kind.Type {
		case "v1.ManagedCluster":
			var c ocm.ManagedCluster
			err = json.Unmarshal(text, &c)
			o.clusters = append(o.clusters, &c)
		case "v1beta2.ManagedClusterSet":
			err = add(&o.sets, text)
		case "v1beta2.ManagedClusterSetBinding":
			err = add(&o.bindings, text)
		case "v1beta1.PlacementDecision":
			err = add(&o.decisions, text)
		case "v1alpha1.AddOnPlacementScore":
			err = add(&o.scores, text)
		default:
			err = errors.New("no kind of a row: " + kind.Type)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func add[T any](list *[]T, text []byte) error {
	var item T
	err := json.Unmarshal(text, &item)
	*list = append(*list, item)
	return err
}

func (o objects) known() Known {
	return Known{Now: newYear, Decisions: o.decisions, Scores: o.scores}
}

func names(clusters []*ocm.ManagedCluster) []string {
	list := []string{}
	for _, c := range clusters {
		list = append(list, c.Name)
	}
	return list
}

// text is an error of a row.
type text struct {
	Text string `json:"$error"`
}

func TestScheduleRows(t *testing.T) {
	type row struct {
		Clusters, InitObjs, ExpectedDecisions objects
		ExpectedFilterResult                  []struct {
			Name             string
			FilteredClusters []string
		}
		ExpectedScoreResult []Scores
		ExpectedStatus      struct {
			Code    int
			Plugin  string
			Reasons []string
		}
		ExpectedUnScheduled int
		Placement           ocm.Placement
	}
	for _, r := range upstreamcases.Rows[row](t, scheduling+"schedule__TestSchedule.json") {
		t.Run(r.Name, func(t *testing.T) {
			got, err := Schedule(&r.Case.Placement, r.Case.Clusters.clusters, r.Case.InitObjs.known())
			var m *Misconfigured
			want := r.Case.ExpectedStatus
			if errors.As(err, &m) != (want.Code == 3) || m != nil && (m.Plugin != want.Plugin || m.Text != want.Reasons[0]) {
				t.Fatalf("got %v, want %+v", err, want)
			}
			upstreamcases.Same(t, "selected", names(got.Selected), names(r.Case.ExpectedDecisions.clusters))
			if got.Unscheduled != r.Case.ExpectedUnScheduled {
				t.Errorf("%d are unscheduled, want %d", got.Unscheduled, r.Case.ExpectedUnScheduled)
			}
			if len(got.Filtered) != len(r.Case.ExpectedFilterResult) {
				t.Fatalf("%d filters, want %d", len(got.Filtered), len(r.Case.ExpectedFilterResult))
			}
			for i, f := range r.Case.ExpectedFilterResult {
				upstreamcases.Same(t, f.Name, []any{got.Filtered[i].Name, names(got.Filtered[i].Clusters)}, []any{f.Name, f.FilteredClusters})
			}
			slices.SortFunc(r.Case.ExpectedScoreResult, func(a, b Scores) int { return slices.Compare([]byte(a.Name), []byte(b.Name)) })
			upstreamcases.Same(t, "scores", append([]Scores{}, got.Scores...), r.Case.ExpectedScoreResult)
		})
	}
}

func TestSetRows(t *testing.T) {
	type row struct {
		ClusterSetNames, ExpectedClusterNames, ExpectedClusterSetBindingNames []string
		ExpectErr                                                             bool
		InitObjs                                                              objects
	}
	for _, r := range upstreamcases.Rows[row](t, scheduling+"scheduling_controller__TestGetAvailableClusters.json") {
		got, err := Candidates(r.Case.ClusterSetNames, r.Case.InitObjs.sets, r.Case.InitObjs.clusters)
		if (err != nil) != r.Case.ExpectErr {
			t.Fatalf("%s: %v", r.Name, err)
		}
		upstreamcases.Same(t, r.Name, names(got), append([]string{}, r.Case.ExpectedClusterNames...))
	}
	for _, r := range upstreamcases.Rows[row](t, scheduling+"scheduling_controller__TestGetValidManagedClusterSetBindings.json") {
		upstreamcases.Same(t, r.Name, Bound("ns1", r.Case.InitObjs.bindings, r.Case.InitObjs.sets), r.Case.ExpectedClusterSetBindingNames)
	}
}

func TestConditionRows(t *testing.T) {
	type satisfied struct {
		ClusterSetsInSpec, EligibleClusterSets                                                  []string
		NumOfBindings, NumOfAvailableClusters, NumOfFeasibleClusters, NumOfUnscheduledDecisions int
		ExpectedReason, ExpectedStatus                                                          string
	}
	for _, r := range upstreamcases.Rows[satisfied](t, scheduling+"scheduling_controller__TestNewSatisfiedCondition.json") {
		c := r.Case
		got := Satisfaction(Counts{
			InSpec: c.ClusterSetsInSpec, Eligible: c.EligibleClusterSets, Bindings: c.NumOfBindings,
			Available: c.NumOfAvailableClusters, Feasible: c.NumOfFeasibleClusters, Unscheduled: c.NumOfUnscheduledDecisions,
		})
		if got.Reason != c.ExpectedReason || got.Status != c.ExpectedStatus {
			t.Errorf("%s: got %+v, want %+v", r.Name, got, c)
		}
	}
	type misconfigured struct {
		ExpectedMessage, ExpectedReason, ExpectedStatus string
		Status                                          struct {
			Code    int
			Plugin  string
			Reasons []string
		}
	}
	for _, r := range upstreamcases.Rows[misconfigured](t, scheduling+"scheduling_controller__TestNewMisconfiguredCondition.json") {
		var m *Misconfigured
		if r.Case.Status.Code == 3 {
			m = &Misconfigured{Plugin: r.Case.Status.Plugin, Text: r.Case.Status.Reasons[0]}
		}
		got := Misconfiguration(m)
		if got.Message != r.Case.ExpectedMessage || got.Reason != r.Case.ExpectedReason || got.Status != r.Case.ExpectedStatus {
			t.Errorf("%s: got %+v, want %+v", r.Name, got, r.Case)
		}
	}
}

func TestCELRows(t *testing.T) {
	type row struct {
		Cluster                           ocm.ManagedCluster
		ExpectCompileError, ExpectedMatch bool
		ExpectedCost                      int
		Expressions                       []string
	}
	for _, r := range upstreamcases.Rows[row](t, "fleet/ocm/ocm_placement_helpers__cel__TestCELSelector.json") {
		t.Run(r.Name, func(t *testing.T) {
			e, err := compileFor(Known{Now: newYear}, r.Case.Expressions...)
			if (err != nil) != r.Case.ExpectCompileError {
				t.Fatal(err)
			}
			// the rows were made with a budget of 15; a cost of 16 means that it was exceeded
			if err == nil && e.match(&r.Case.Cluster, 15) != r.Case.ExpectedMatch {
				t.Errorf("match is %v, want %v", !r.Case.ExpectedMatch, r.Case.ExpectedMatch)
			}
		})
	}
}

func TestMatchRows(t *testing.T) {
	type row struct {
		Cluster         ocm.ManagedCluster
		Clusterselector ocm.ClusterSelector
		ExpectedMatch   bool
	}
	for _, r := range upstreamcases.Rows[row](t, "fleet/ocm/ocm_placement_helpers__clusters__TestMatches.json") {
		s, err := compile(r.Case.Clusterselector, Known{Now: newYear})
		if got := err == nil && s.matches(&r.Case.Cluster); got != r.Case.ExpectedMatch {
			t.Errorf("%s: got %v: %v", r.Name, got, err)
		}
	}
}

func TestPredicateRows(t *testing.T) {
	type row struct {
		Clusters, ExistingAddOnScores objects
		ExpectedClusterNames          []string
		Placement                     ocm.Placement
	}
	for _, r := range upstreamcases.Rows[row](t, plugins+"predicate__predicate__TestMatchWithClusterPredicates.json") {
		got, err := match(&r.Case.Placement, r.Case.Clusters.clusters, r.Case.ExistingAddOnScores.known())
		if err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
		upstreamcases.Same(t, r.Name, names(got), append([]string{}, r.Case.ExpectedClusterNames...))
	}
}

func TestTolerationRows(t *testing.T) {
	type row struct {
		Clusters, InitObjs    objects
		ExpectedClusterNames  []string
		ExpectedErr           *text
		ExpectedRequeueResult struct{ RequeueTime time.Time }
		Placement             ocm.Placement
	}
	all := upstreamcases.Rows[row](t, plugins+"tainttoleration__taint_toleration__TestMatchWithClusterTaintToleration.json")
	for _, r := range all {
		t.Run(r.Name, func(t *testing.T) {
			mine := decided(&r.Case.Placement, r.Case.InitObjs.decisions)
			got, err := tolerate(r.Case.Placement.Spec.Tolerations, r.Case.Clusters.clusters, mine, newYear)
			if want := r.Case.ExpectedErr; (err != nil) != (want != nil) || err != nil && err.Error() != want.Text {
				t.Fatalf("got %v, want %v", err, want)
			}
			upstreamcases.Same(t, "clusters", names(got), append([]string{}, r.Case.ExpectedClusterNames...))
			again := toleratedUntil(r.Case.Placement.Spec.Tolerations, r.Case.Clusters.clusters, mine, newYear)
			if !again.Equal(r.Case.ExpectedRequeueResult.RequeueTime) {
				t.Errorf("looks again at %v, want %v", again, r.Case.ExpectedRequeueResult.RequeueTime)
			}
		})
	}
	t.Logf("%d rows", len(all))
}

func TestScoreRows(t *testing.T) {
	type row struct {
		Clusters                               objects
		ExistingDecisions, ExistingAddOnScores objects
		ExpectedScores                         map[string]int64
		ExpectedErr                            *text
		Placement                              ocm.Placement
		Resource                               string
	}
	for _, file := range []struct {
		name string
		run  func(row) prioritizer
	}{
		{"balance__balance__TestScoreClusterWithSteady.json", func(row) prioritizer { return balance }},
		{"steady__steady__TestScoreClusterWithSteady.json", func(row) prioritizer { return steady }},
		{"resource__resource__TestScoreClusterWithResource.json", func(r row) prioritizer { return allocatable(r.Resource) }},
		{"addon__addon__TestScoreClusterWithAddOn.json", func(r row) prioritizer {
			return addOn(*r.Placement.Spec.PrioritizerPolicy.Configurations[0].ScoreCoordinate.AddOn)
		}},
	} {
		for _, r := range upstreamcases.Rows[row](t, plugins+file.name) {
			known := Known{Now: newYear, Decisions: r.Case.ExistingDecisions.decisions, Scores: r.Case.ExistingAddOnScores.scores}
			mine := decided(&r.Case.Placement, known.Decisions)
			got, warning := file.run(r.Case)(&r.Case.Placement, r.Case.Clusters.clusters, mine, known)
			if !maps.Equal(got, r.Case.ExpectedScores) {
				t.Errorf("%s: got %v, want %v", r.Name, got, r.Case.ExpectedScores)
			}
			if want := r.Case.ExpectedErr; want != nil && warning != want.Text || want == nil && warning != "" {
				t.Errorf("%s: got warning %q, want %v", r.Name, warning, want)
			}
		}
	}
}
