package proxy

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/chartplan"
)

// TestRolloutsSeeAllClusters: a rollout would continue without a cluster that it does not know.
func TestRolloutsSeeAllClusters(t *testing.T) {
	of := func(cluster string, deleting bool) (r caaph.HelmReleaseProxy) {
		r.Name, r.Spec.ClusterRef.Name = "web-"+cluster, cluster
		if deleting {
			r.DeletionTimestamp = &metav1.Time{}
			*r.DeletionTimestamp = metav1.Now()
		}
		return r
	}
	for name, tt := range map[string]struct {
		template string
		paused   bool
		releases []caaph.HelmReleaseProxy
		action   chartplan.Action
		blocked  bool
		fails    bool
	}{
		"a new one":                       {action: chartplan.Create},
		"its release is being deleted":    {releases: []caaph.HelmReleaseProxy{of("rome", true)}, action: chartplan.Keep},
		"its values cannot be rendered":   {template: "{{ fail `no` }}", blocked: true, fails: true},
		"it has two releases":             {releases: []caaph.HelmReleaseProxy{of("rome", false), of("rome", false)}, blocked: true, fails: true},
		"it is paused":                    {paused: true, action: chartplan.Create, blocked: true},
		"it is paused, and has a mistake": {paused: true, template: "{{ fail `no` }}", blocked: true},
	} {
		hcp := &caaph.HelmChartProxy{}
		hcp.Spec.ChartName, hcp.Spec.ValuesTemplate = "web", tt.template
		p := &pass{ChartReconciler: &ChartReconciler{}, hcp: hcp, releases: tt.releases}
		w := p.decide(t.Context(), chartplan.Cluster{Name: "rome", Paused: tt.paused}, &unstructured.Unstructured{Object: map[string]any{}})
		if w.cluster.Name != "rome" || w.action != tt.action || w.blocked != tt.blocked || (len(p.errs) > 0) != tt.fails {
			t.Errorf("%s: action %q, blocked %v, errors %v", name, w.action, w.blocked, p.errs)
		}
	}
}
