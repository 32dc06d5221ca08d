package chartplan_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/chartplan"
	"github.com/sealift/sealift/fleet/values"
	"github.com/sealift/sealift/internal/sandbox"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
)

func TestMain(m *testing.M) {
	sandbox.Main(values.Tasks()...)
	os.Exit(m.Run())
}

const charts = "fleet/caaph/controllers_helmchartproxy__helmchartproxy_controller"

// cluster is a Cluster object of a row.
type cluster map[string]any

func (c cluster) read(t *testing.T) chartplan.Cluster {
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
	return chartplan.Cluster{
		APIVersion: object.APIVersion, Namespace: object.Metadata.Namespace, Name: object.Metadata.Name, Labels: object.Metadata.Labels,
		Paused: object.Spec.Paused, Deleting: !object.Metadata.DeletionTimestamp.IsZero(),
	}
}

// state is the result of a reconcile. A resourceVersion means nothing.
type state struct {
	HelmChartProxy struct {
		Status struct {
			Conditions       []chartplan.Condition
			MatchingClusters []corev1.ObjectReference
		}
	}
	HelmReleaseProxies []caaph.HelmReleaseProxy
}

func after(t *testing.T, observed []upstreamcases.Observation) (s state) {
	t.Helper()
	for _, o := range observed {
		if err := json.Unmarshal(o.Value, &s); err != nil {
			t.Fatal(err)
		}
	}
	for i := range s.HelmReleaseProxies {
		made := &s.HelmReleaseProxies[i]
		made.ResourceVersion = ""
		if made.GenerateName != "" {
			made.Name = "" // the API server chose it
		}
	}
	return s
}

// next returns the HelmReleaseProxies of a cluster after its turn, and the error of its values.
func next(t *testing.T, hcp *caaph.HelmChartProxy, object cluster, has []caaph.HelmReleaseProxy) ([]caaph.HelmReleaseProxy, error) {
	t.Helper()
	c := object.read(t)
	if c.Paused || c.Deleting {
		return has, nil
	}
	text, err := values.Render(t.Context(), values.Input{Name: hcp.Spec.ChartName + "-" + c.Name, Template: hcp.Spec.ValuesTemplate, Cluster: object})
	if err != nil {
		return has, err
	}
	action, got, err := chartplan.Decide(hcp, c, has, text)
	if err != nil {
		t.Fatal(err)
	}
	if action == chartplan.Reinstall {
		return nil, nil
	}
	return []caaph.HelmReleaseProxy{got}, nil
}

func TestConstructRows(t *testing.T) {
	type row struct {
		Cluster        cluster
		Expected       *caaph.HelmReleaseProxy // nil if nothing is to do
		HelmChartProxy caaph.HelmChartProxy
		ParsedValues   string
		Existing       *caaph.HelmReleaseProxy
	}
	for _, r := range upstreamcases.Rows[row](t, charts+"_phases__TestConstructHelmReleaseProxy.json") {
		t.Run(r.Name, func(t *testing.T) {
			var existing []caaph.HelmReleaseProxy
			if r.Case.Existing != nil {
				existing = append(existing, *r.Case.Existing)
			}
			action, got, err := chartplan.Decide(&r.Case.HelmChartProxy, r.Case.Cluster.read(t), existing, r.Case.ParsedValues)
			if err != nil || (action == chartplan.Keep) != (r.Case.Expected == nil) {
				t.Fatal(action, err)
			}
			if action != chartplan.Keep {
				upstreamcases.Same(t, "HelmReleaseProxy", got, r.Case.Expected)
			}
		})
	}
}

func TestReconcileForClusterRows(t *testing.T) {
	type row struct {
		Cluster                  cluster
		ExistingHelmReleaseProxy *caaph.HelmReleaseProxy
		ExpectedError            string
		HelmChartProxy           caaph.HelmChartProxy
	}
	for _, r := range upstreamcases.Rows[row](t, charts+"_phases__TestReconcileForCluster.json") {
		t.Run(r.Name, func(t *testing.T) {
			var existing []caaph.HelmReleaseProxy
			if r.Case.ExistingHelmReleaseProxy != nil {
				existing = append(existing, *r.Case.ExistingHelmReleaseProxy)
			}
			got, err := next(t, &r.Case.HelmChartProxy, r.Case.Cluster, existing)
			if (err != nil) != (r.Case.ExpectedError != "") || err != nil && !strings.HasSuffix(r.Case.ExpectedError, err.Error()) {
				t.Fatalf("got error %v, want %q", err, r.Case.ExpectedError)
			}
			upstreamcases.Same(t, "HelmReleaseProxies", append([]caaph.HelmReleaseProxy{}, got...), append([]caaph.HelmReleaseProxy{}, after(t, r.Observed).HelmReleaseProxies...))
		})
	}
}

func TestShouldReinstallRows(t *testing.T) {
	type row struct {
		HelmChartProxy   caaph.HelmChartProxy
		HelmReleaseProxy caaph.HelmReleaseProxy
		Reinstall        bool
	}
	for _, r := range upstreamcases.Rows[row](t, charts+"_phases__TestShouldReinstallHelmRelease.json") {
		action, _, err := chartplan.Decide(&r.Case.HelmChartProxy, chartplan.Cluster{}, []caaph.HelmReleaseProxy{r.Case.HelmReleaseProxy}, "")
		if err != nil || (action == chartplan.Reinstall) != r.Case.Reinstall {
			t.Errorf("%s: %s %v", r.Name, action, err)
		}
	}
}

func TestReconcileNormalRows(t *testing.T) {
	type row struct {
		HelmChartProxy caaph.HelmChartProxy
		Objects        []json.RawMessage
	}
	for _, r := range upstreamcases.Rows[row](t, charts+"__TestReconcileNormal.json") {
		t.Run(r.Name, func(t *testing.T) {
			hcp := &r.Case.HelmChartProxy
			var clusters []chartplan.Cluster
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
			selected, err := chartplan.Select(hcp, clusters)
			if err != nil {
				t.Fatal(err)
			}
			orphans := chartplan.Orphans(hcp, selected, had)
			left := slices.DeleteFunc(had, func(r caaph.HelmReleaseProxy) bool {
				return slices.ContainsFunc(orphans, func(o caaph.HelmReleaseProxy) bool { return o.Name == r.Name })
			})
			references := []corev1.ObjectReference{}
			for _, c := range selected {
				references = append(references, c.Reference())
				at := func(r caaph.HelmReleaseProxy) bool { return r.Spec.ClusterRef.Name == c.Name }
				mine, err := next(t, hcp, objects[c.Name], slices.DeleteFunc(slices.Clone(left), func(r caaph.HelmReleaseProxy) bool { return !at(r) }))
				if err != nil {
					t.Fatal(err)
				}
				left = append(slices.DeleteFunc(left, at), mine...)
			}
			slices.SortFunc(left, func(a, b caaph.HelmReleaseProxy) int {
				return strings.Compare(a.Spec.ClusterRef.Name, b.Spec.ClusterRef.Name)
			})
			want := after(t, r.Observed)
			upstreamcases.Same(t, "releases", append([]caaph.HelmReleaseProxy{}, left...), append([]caaph.HelmReleaseProxy{}, want.HelmReleaseProxies...))
			upstreamcases.Same(t, "matching clusters", references, want.HelmChartProxy.Status.MatchingClusters)
			if !slices.ContainsFunc(left, func(r caaph.HelmReleaseProxy) bool { return r.Name == "" }) { // messages have names
				upstreamcases.Same(t, "conditions", chartplan.Aggregate(left, chartplan.Condition{}, chartplan.Condition{}), want.HelmChartProxy.Status.Conditions)
			}
		})
	}
}
