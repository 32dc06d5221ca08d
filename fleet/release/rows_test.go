package release_test

import (
	"encoding/json"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/release"
	"github.com/sealift/sealift/fleet/values"
	"github.com/sealift/sealift/testgrid/cases"
)

const (
	charts   = "fleet/caaph/controllers_helmchartproxy__helmchartproxy_controller"
	releases = "fleet/caaph/controllers_helmreleaseproxy__helmreleaseproxy_controller__"
)

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	a, err1 := json.Marshal(got)
	b, err2 := json.Marshal(want)
	if err1 != nil || err2 != nil || string(a) != string(b) {
		t.Errorf("%s\ngot  %s\nwant %s", what, a, b)
	}
}

// cluster is a Cluster object of a row.
type cluster map[string]any

func (c cluster) read(t *testing.T) release.Cluster {
	t.Helper()
	var object struct {
		APIVersion string
		Metadata   metav1.ObjectMeta
		Spec       struct{ Paused bool }
	}
	text, err := json.Marshal(c)
	if err == nil {
		err = json.Unmarshal(text, &object)
	}
	if err != nil {
		t.Fatal(err)
	}
	return release.Cluster{
		APIVersion: object.APIVersion, Namespace: object.Metadata.Namespace, Name: object.Metadata.Name, Labels: object.Metadata.Labels,
		Paused: object.Spec.Paused, Deleting: !object.Metadata.DeletionTimestamp.IsZero(),
	}
}

// state is what a reconcile left behind. A resourceVersion means nothing.
type state struct {
	HelmChartProxy struct {
		Status struct {
			Conditions       []release.Condition
			MatchingClusters json.RawMessage
		}
	}
	HelmReleaseProxy struct {
		Metadata metav1.ObjectMeta
		Spec     caaph.HelmReleaseProxySpec
		Status   struct {
			Conditions []release.Condition
			Status     string
			Revision   int
		}
	}
	HelmReleaseProxies []caaph.HelmReleaseProxy
}

func after(t *testing.T, observed []cases.Observation) (s state) {
	t.Helper()
	for _, o := range observed {
		if err := json.Unmarshal(o.Value, &s); err != nil {
			t.Fatal(err)
		}
	}
	for i := range s.HelmReleaseProxies {
		s.HelmReleaseProxies[i].ResourceVersion = ""
	}
	return s
}

func TestConstructRows(t *testing.T) {
	type row struct {
		Cluster        cluster
		Expected       caaph.HelmReleaseProxy
		HelmChartProxy caaph.HelmChartProxy
		ParsedValues   string
		Existing       *caaph.HelmReleaseProxy
	}
	for _, r := range cases.Rows[row](t, charts+"_phases__TestConstructHelmReleaseProxy.json") {
		t.Run(r.Name, func(t *testing.T) {
			var existing []caaph.HelmReleaseProxy
			if r.Case.Existing != nil {
				existing = append(existing, *r.Case.Existing)
			}
			_, got, err := release.Decide(&r.Case.HelmChartProxy, r.Case.Cluster.read(t), existing, r.Case.ParsedValues)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "HelmReleaseProxy", got, r.Case.Expected)
		})
	}
}

func TestReconcileForClusterRows(t *testing.T) {
	type row struct {
		Cluster                       cluster
		ExistingHelmReleaseProxy      *caaph.HelmReleaseProxy
		ExpectHelmReleaseProxyToExist bool
		ExpectedError                 string
		HelmChartProxy                caaph.HelmChartProxy
	}
	for _, r := range cases.Rows[row](t, charts+"_phases__TestReconcileForCluster.json") {
		t.Run(r.Name, func(t *testing.T) {
			text, err := values.Render(values.Input{Template: r.Case.HelmChartProxy.Spec.ValuesTemplate, Cluster: r.Case.Cluster})
			if err != nil {
				t.Fatal(err)
			}
			var existing []caaph.HelmReleaseProxy
			if r.Case.ExistingHelmReleaseProxy != nil {
				existing = append(existing, *r.Case.ExistingHelmReleaseProxy)
			}
			action, got, err := release.Decide(&r.Case.HelmChartProxy, r.Case.Cluster.read(t), existing, text)
			if err != nil || r.Case.ExpectHelmReleaseProxyToExist == (action == release.Reinstall) {
				t.Fatal(action, err)
			}
			want := after(t, r.Observed).HelmReleaseProxies
			if action == release.Reinstall {
				same(t, "HelmReleaseProxies", len(want), 0)
				return
			}
			same(t, string(action), []caaph.HelmReleaseProxy{got}, want)
		})
	}
}

func TestShouldReinstallRows(t *testing.T) {
	type row struct {
		HelmChartProxy   caaph.HelmChartProxy
		HelmReleaseProxy caaph.HelmReleaseProxy
		Reinstall        bool
	}
	for _, r := range cases.Rows[row](t, charts+"_phases__TestShouldReinstallHelmRelease.json") {
		action, _, err := release.Decide(&r.Case.HelmChartProxy, release.Cluster{}, []caaph.HelmReleaseProxy{r.Case.HelmReleaseProxy}, "")
		if err != nil || (action == release.Reinstall) != r.Case.Reinstall {
			t.Errorf("%s: %s %v", r.Name, action, err)
		}
	}
}

func TestReconcileNormalRows(t *testing.T) {
	type row struct {
		HelmChartProxy caaph.HelmChartProxy
		Objects        []json.RawMessage
	}
	for _, r := range cases.Rows[row](t, charts+"__TestReconcileNormal.json") {
		t.Run(r.Name, func(t *testing.T) {
			hcp := &r.Case.HelmChartProxy
			var clusters []release.Cluster
			objects := map[string]cluster{}
			var had []caaph.HelmReleaseProxy
			for _, text := range r.Case.Objects {
				var c cluster
				if err := json.Unmarshal(text, &c); err != nil {
					t.Fatal(err)
				}
				if c["kind"] == "Cluster" {
					clusters = append(clusters, c.read(t))
					objects[c.read(t).Name] = c
					continue
				}
				var release caaph.HelmReleaseProxy
				if err := json.Unmarshal(text, &release); err != nil {
					t.Fatal(err)
				}
				had = append(had, release)
			}
			selected, err := release.Select(hcp, clusters)
			if err != nil {
				t.Fatal(err)
			}
			left := had
			for _, orphan := range release.Orphans(hcp, selected, had) {
				left = slices.DeleteFunc(left, func(r caaph.HelmReleaseProxy) bool { return r.Name == orphan.Name })
			}
			for _, c := range selected {
				text, err := values.Render(values.Input{Template: hcp.Spec.ValuesTemplate, Cluster: objects[c.Name]})
				if err != nil {
					t.Fatal(err)
				}
				mine := slices.DeleteFunc(slices.Clone(left), func(r caaph.HelmReleaseProxy) bool { return r.Spec.ClusterRef.Name != c.Name })
				action, _, err := release.Decide(hcp, c, mine, text)
				if err != nil || action != release.Keep {
					t.Fatal("a row of another form:", action, err)
				}
			}
			want := after(t, r.Observed)
			same(t, "releases", left, want.HelmReleaseProxies)
			same(t, "conditions", release.Aggregate(left, release.Condition{}, release.Condition{}), want.HelmChartProxy.Status.Conditions)
			references := make([]any, 0)
			for _, c := range selected {
				references = append(references, c.Reference())
			}
			var wanted []any
			if err := json.Unmarshal(want.HelmChartProxy.Status.MatchingClusters, &wanted); err != nil || len(wanted) != len(references) {
				t.Errorf("matching clusters are %v, want %v: %v", references, wanted, err)
			}
		})
	}
}

// helmDid is what the rows' Helm answers. The rows have it in their names only.
var helmDid = map[string]release.Installed{
	"successfully install a Helm release with a generated name": {Status: "deployed", Revision: 1},
	"Helm release pending":             {Status: "pending-install", Revision: 1},
	"Helm release already uninstalled": {},
}

func TestReleaseRows(t *testing.T) {
	type row struct{ HelmReleaseProxy caaph.HelmReleaseProxy }
	for _, file := range []string{"TestReconcileNormal.json", "TestReconcileDelete.json"} {
		for _, r := range cases.Rows[row](t, releases+file) {
			t.Run(r.Name, func(t *testing.T) {
				has, known := helmDid[r.Name]
				if !known {
					t.Fatal("the test does not know what Helm did")
				}
				got := r.Case.HelmReleaseProxy
				want := after(t, r.Observed).HelmReleaseProxy
				release.Record(&got, has, want.Spec.ReleaseName)
				same(t, "metadata", got.ObjectMeta, want.Metadata)
				same(t, "spec", got.Spec, want.Spec)
				same(t, "condition", []release.Condition{release.Report(has)}, want.Status.Conditions)
				if got.Status.Status != want.Status.Status || got.Status.Revision != want.Status.Revision {
					t.Errorf("status is %+v, want %+v", got.Status, want.Status)
				}
			})
		}
	}
}
