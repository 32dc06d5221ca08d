package placement

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
)

// status is the status of a placement, with conditions that have no time.
type status struct {
	DecisionGroups           []ocm.DecisionGroupStatus
	NumberOfSelectedClusters int
	Conditions               []Condition
}

// after returns the decisions, by name, and the placement's status after the requests of a row.
func after(t *testing.T, placement json.RawMessage, existing []ocm.PlacementDecision, observed []upstreamcases.Observation) ([]ocm.PlacementDecision, status) {
	t.Helper()
	decisions := map[string]ocm.PlacementDecision{}
	for _, d := range existing {
		decisions[d.Name] = d
	}
	for _, o := range observed {
		var requests []struct {
			Verb, Resource, Name string
			Object               ocm.PlacementDecision
			Patch                json.RawMessage
		}
		if err := json.Unmarshal(o.Value, &requests); err != nil {
			t.Fatal(err)
		}
		for _, r := range requests {
			switch r.Verb + " " + r.Resource {
			case "create placementdecisions":
				decisions[r.Object.Name] = r.Object
			case "patch placementdecisions":
				var patched ocm.PlacementDecision
				before, err := json.Marshal(decisions[r.Name])
				if err == nil {
					err = json.Unmarshal(merge(t, before, r.Patch), &patched)
				}
				if err != nil {
					t.Fatal(err)
				}
				decisions[r.Name] = patched
			case "delete placementdecisions":
				delete(decisions, r.Name)
			case "patch placements":
				placement = merge(t, placement, r.Patch)
			default:
				t.Fatalf("a row of another form: it has %s %s", r.Verb, r.Resource)
			}
		}
	}
	var p struct{ Status status }
	if err := json.Unmarshal(placement, &p); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(p.Status.Conditions, func(a, b Condition) int { return strings.Compare(a.Type, b.Type) })
	return slices.Collect(maps.Values(decisions)), p.Status
}

func merge(t *testing.T, text, patch []byte) []byte {
	t.Helper()
	merged, err := jsonpatch.MergePatch(text, patch)
	if err != nil {
		t.Fatal(err)
	}
	return merged
}

// sameDecisions compares decisions. Those that existed have no owner in the rows.
func sameDecisions(t *testing.T, got, want, existing []ocm.PlacementDecision) {
	t.Helper()
	type decision struct {
		Namespace, Name string
		Labels          map[string]string
		Owners          []metav1.OwnerReference
		Clusters        []ocm.ClusterDecision
	}
	sorted := func(list []ocm.PlacementDecision) (found []decision) {
		for _, d := range list {
			item := decision{d.Namespace, d.Name, d.Labels, d.OwnerReferences, append([]ocm.ClusterDecision{}, d.Status.Decisions...)}
			if slices.ContainsFunc(existing, func(e ocm.PlacementDecision) bool { return e.Name == d.Name }) {
				item.Owners = nil
			}
			found = append(found, item)
		}
		slices.SortFunc(found, func(a, b decision) int { return strings.Compare(a.Name, b.Name) })
		return found
	}
	upstreamcases.Same(t, "decisions", sorted(got), sorted(want))
}

func TestBindRows(t *testing.T) {
	type row struct {
		Clusters  objects
		Placement ocm.Placement
		InitObjs  objects
	}
	for _, r := range upstreamcases.Rows[row](t, scheduling+"scheduling_controller__TestBind.json") {
		t.Run(r.Name, func(t *testing.T) {
			got, _, err := Group(&r.Case.Placement, r.Case.Clusters.clusters)
			if err != nil {
				t.Fatal(err)
			}
			existing := r.Case.InitObjs.decisions
			want, _ := after(t, []byte("{}"), existing, r.Observed)
			sameDecisions(t, got, want, existing)
		})
	}
}

func TestSchedulingControllerRows(t *testing.T) {
	type row struct {
		Placement      json.RawMessage
		InitObjs       objects
		ScheduleResult struct {
			FeasibleClusters, ScheduledDecisions objects
			UnscheduledDecisions                 int
		}
	}
	for _, r := range upstreamcases.Rows[row](t, scheduling+"scheduling_controller__TestSchedulingController_sync.json") {
		t.Run(r.Name, func(t *testing.T) {
			existing, sets := r.Case.InitObjs.decisions, r.Case.InitObjs.sets
			want, wantStatus := after(t, r.Case.Placement, existing, r.Observed)
			var p ocm.Placement
			if err := json.Unmarshal([]byte(strings.ReplaceAll(string(r.Case.Placement), `"$now"`, `"2022-01-01T00:00:00Z"`)), &p); err != nil {
				t.Fatal(err)
			}
			if p.Annotations[ocm.SchedulingDisabled] == "true" { // the hub does not request its decisions
				_, before := after(t, r.Case.Placement, nil, nil)
				sameDecisions(t, existing, want, existing)
				upstreamcases.Same(t, "status", before, wantStatus)
				return
			}
			selected := r.Case.ScheduleResult.ScheduledDecisions.clusters
			got, groups, err := Group(&p, selected)
			if err != nil {
				t.Fatal(err)
			}
			sameDecisions(t, got, want, existing)
			bound := Bound(p.Namespace, r.Case.InitObjs.bindings, sets)
			eligible := Eligible(bound, p.Spec.ClusterSets)
			candidates, err := Candidates(eligible, sets, r.Case.InitObjs.clusters)
			if err != nil {
				t.Fatal(err)
			}
			upstreamcases.Same(t, "status", status{groups, len(selected), []Condition{Misconfiguration(nil), Satisfaction(Counts{
				InSpec: p.Spec.ClusterSets, Eligible: eligible, Bindings: len(bound), Available: len(candidates),
				Feasible: len(r.Case.ScheduleResult.FeasibleClusters.clusters), Unscheduled: r.Case.ScheduleResult.UnscheduledDecisions,
			})}}, wantStatus)
		})
	}
}

func TestDecisionGroupRows(t *testing.T) {
	type decision struct {
		Clusters []string          `json:"clusters"`
		Labels   map[string]string `json:"labels"`
		Name     string            `json:"name"`
	}
	type row struct {
		Placement         struct{ Name, Namespace string }
		DecisionStrategy  ocm.DecisionStrategy
		ScheduledClusters []struct {
			Name   string
			Labels map[string]string
		}
		Expect struct {
			DecisionGroups     []ocm.DecisionGroupStatus
			PlacementDecisions []decision
			Error              any
		}
	}
	all := upstreamcases.Rows[row](t, "fleet/ocm/decisiongroups_generated.jsonl")
	for _, r := range all {
		t.Run(r.Name, func(t *testing.T) {
			p := &ocm.Placement{Spec: ocm.PlacementSpec{DecisionStrategy: r.Case.DecisionStrategy}}
			p.Name, p.Namespace = r.Case.Placement.Name, r.Case.Placement.Namespace
			var selected []*ocm.ManagedCluster
			for _, c := range r.Case.ScheduledClusters {
				cluster := &ocm.ManagedCluster{}
				cluster.Name, cluster.Labels = c.Name, c.Labels
				selected = append(selected, cluster)
			}
			decisions, groups, err := Group(p, selected)
			if (err != nil) != (r.Case.Expect.Error != nil) {
				t.Fatalf("got %v, want %v", err, r.Case.Expect.Error)
			}
			var got []decision
			for _, d := range decisions {
				g := decision{Clusters: []string{}, Labels: d.Labels, Name: d.Name}
				for _, c := range d.Status.Decisions {
					g.Clusters = append(g.Clusters, c.ClusterName)
				}
				got = append(got, g)
			}
			upstreamcases.Same(t, "decisions", got, r.Case.Expect.PlacementDecisions)
			upstreamcases.Same(t, "groups", groups, r.Case.Expect.DecisionGroups)
		})
	}
	t.Logf("%d rows", len(all))
}
