package chartplan_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/chartplan"
)

// proxy returns a HelmChartProxy, and the release that it has on cluster rome.
func proxy() (*caaph.HelmChartProxy, caaph.HelmReleaseProxy, chartplan.Cluster) {
	hcp := &caaph.HelmChartProxy{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "calico"}}
	hcp.Spec.Chart = caaph.Chart{ChartName: "tigera", RepoURL: "https://a", ReleaseName: "calico", ReleaseNamespace: "cni", Version: "1"}
	rome := chartplan.Cluster{APIVersion: "cluster.x-k8s.io/v1beta2", Namespace: "fleet", Name: "rome"}
	_, made, err := chartplan.Decide(hcp, rome, nil, "a: 1")
	if err != nil {
		panic(err)
	}
	made.Name = "calico-rome-x"
	return hcp, made, rome
}

func TestDecide(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*caaph.HelmChartProxy, *caaph.HelmReleaseProxy)
		values string
		want   chartplan.Action
	}{
		"nothing changed":      {nil, "a: 1", chartplan.Keep},
		"other values":         {nil, "a: 2", chartplan.Update},
		"another version":      {func(h *caaph.HelmChartProxy, _ *caaph.HelmReleaseProxy) { h.Spec.Version = "2" }, "a: 1", chartplan.Update},
		"other options (C-10)": {func(h *caaph.HelmChartProxy, _ *caaph.HelmReleaseProxy) { h.Spec.Options.Wait = true }, "a: 1", chartplan.Update},
		"other credentials": {func(h *caaph.HelmChartProxy, _ *caaph.HelmReleaseProxy) {
			h.Spec.Credentials = &caaph.Credentials{Key: "k"}
		}, "a: 1", chartplan.Update},
		"another TLS setting": {func(h *caaph.HelmChartProxy, _ *caaph.HelmReleaseProxy) { h.Spec.TLSConfig = &caaph.TLSConfig{} }, "a: 1", chartplan.Update},
		"another chart":       {func(h *caaph.HelmChartProxy, _ *caaph.HelmReleaseProxy) { h.Spec.ChartName = "b" }, "a: 1", chartplan.Reinstall},
		"another repository":  {func(h *caaph.HelmChartProxy, _ *caaph.HelmReleaseProxy) { h.Spec.RepoURL = "https://b" }, "a: 1", chartplan.Reinstall},
		"another namespace":   {func(h *caaph.HelmChartProxy, _ *caaph.HelmReleaseProxy) { h.Spec.ReleaseNamespace = "b" }, "a: 1", chartplan.Reinstall},
		"another name":        {func(h *caaph.HelmChartProxy, _ *caaph.HelmReleaseProxy) { h.Spec.ReleaseName = "b" }, "a: 1", chartplan.Reinstall},
		"a name that Helm chose": {func(h *caaph.HelmChartProxy, r *caaph.HelmReleaseProxy) {
			h.Spec.ReleaseName, r.Annotations = "", map[string]string{caaph.GeneratedName: "true"}
		}, "a: 1", chartplan.Keep},
		"InstallOnce, not yet installed": {func(h *caaph.HelmChartProxy, _ *caaph.HelmReleaseProxy) { h.Spec.ReconcileStrategy = caaph.InstallOnce }, "a: 2", chartplan.Update},
		"InstallOnce, installed": {func(h *caaph.HelmChartProxy, r *caaph.HelmReleaseProxy) {
			h.Spec.ReconcileStrategy, h.Spec.ChartName = caaph.InstallOnce, "b"
			r.Annotations = map[string]string{caaph.Installed: "true"}
		}, "a: 2", chartplan.Keep},
	} {
		t.Run(name, func(t *testing.T) {
			hcp, had, rome := proxy()
			if tt.change != nil {
				tt.change(hcp, &had)
			}
			got, want, err := chartplan.Decide(hcp, rome, []caaph.HelmReleaseProxy{had}, tt.values)
			if err != nil || got != tt.want {
				t.Fatalf("got %s, want %s: %v", got, tt.want, err)
			}
			// the written object is the wanted one
			if got == chartplan.Update {
				if again, _, err := chartplan.Decide(hcp, rome, []caaph.HelmReleaseProxy{want}, tt.values); err != nil || again != chartplan.Keep {
					t.Errorf("after an update: %s %v", again, err)
				}
			}
		})
	}
	hcp, had, rome := proxy()
	_, _, err := chartplan.Decide(hcp, rome, []caaph.HelmReleaseProxy{had, had}, "")
	if err == nil || err.Error() != "cluster rome: multiple HelmReleaseProxies found matching the cluster and HelmChartProxy" {
		t.Error(err)
	}
}

func TestSecretsAreReadOnlyInTheirNamespace(t *testing.T) {
	hcp, had, rome := proxy()
	hcp.Spec.Credentials, hcp.Spec.TLSConfig = &caaph.Credentials{}, &caaph.TLSConfig{}
	hcp.Spec.TLSConfig.CASecret = &hcp.Spec.Credentials.Secret
	_, got, err := chartplan.Decide(hcp, rome, []caaph.HelmReleaseProxy{had}, "")
	if err != nil || got.Spec.Credentials.Secret.Namespace != "fleet" || got.Spec.TLSConfig.CASecret.Namespace != "fleet" {
		t.Errorf("got %+v %+v %v", got.Spec.Credentials, got.Spec.TLSConfig, err)
	}
	if hcp.Spec.Credentials.Secret.Namespace != "" {
		t.Error("the HelmChartProxy was changed")
	}
}

// TestGenerateName has charts and clusters whose combined names are not valid names of objects.
func TestGenerateName(t *testing.T) {
	seen := map[string]bool{}
	for _, names := range [][2]string{
		{"calico", "rome"}, {"library/nginx", "rome"}, {"library-nginx", "rome"}, {"Calico", "rome"}, {"x", strings.Repeat("long", 30)},
		{"x", strings.Repeat("long", 30) + "er"}, {"..", "-"}, {"ä", "ö"}, {"a.", "b"},
	} {
		hcp, _, rome := proxy()
		hcp.Spec.ChartName, rome.Name = names[0], names[1]
		_, got, err := chartplan.Decide(hcp, rome, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		name := got.GenerateName
		if bad := validation.IsDNS1123Subdomain(name + "abcde"); len(bad) > 0 || len(name) > 58 || seen[name] {
			t.Errorf("%q: %q: %v", names, name, bad)
		}
		seen[name] = true
	}
	if !seen["calico-rome-"] {
		t.Errorf("a plain name was changed: %v", seen)
	}
}

func TestOrphansAreFound(t *testing.T) {
	hcp, had, rome := proxy()
	if got := chartplan.Orphans(hcp, []chartplan.Cluster{rome}, []caaph.HelmReleaseProxy{had}); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	if got := chartplan.Orphans(hcp, nil, []caaph.HelmReleaseProxy{had}); len(got) != 1 {
		t.Errorf("got %v", got)
	}
	hcp.Spec.ReconcileStrategy = caaph.InstallOnce
	if got := chartplan.Orphans(hcp, nil, []caaph.HelmReleaseProxy{had}); len(got) != 0 {
		t.Errorf("InstallOnce has orphans: %v", got)
	}
}

func TestSelect(t *testing.T) {
	hcp, _, rome := proxy()
	oslo := chartplan.Cluster{Namespace: "fleet", Name: "oslo", Labels: map[string]string{"cni": "calico"}}
	bern := chartplan.Cluster{Namespace: "other", Name: "bern", Labels: oslo.Labels}
	all := []chartplan.Cluster{rome, oslo, bern}
	got, err := chartplan.Select(hcp, all)
	if err != nil || len(got) != 2 {
		t.Errorf("an empty selector selects %v: %v", got, err)
	}
	hcp.Spec.ClusterSelector.MatchLabels = oslo.Labels
	if got, err = chartplan.Select(hcp, all); err != nil || len(got) != 1 || got[0].Name != "oslo" {
		t.Errorf("selects %v: %v", got, err)
	}
	hcp.Spec.ClusterSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}
	if _, err = chartplan.Select(hcp, all); err == nil {
		t.Error("a selector with a mistake passes")
	}
}

func TestOperate(t *testing.T) {
	for name, tt := range map[string]struct {
		has  chartplan.Installed
		want chartplan.Operation
	}{
		"none":                      {chartplan.Installed{}, chartplan.Install},
		"history of an old one":     {chartplan.Installed{Status: "uninstalled", Version: "1"}, chartplan.Install},
		"as wanted":                 {chartplan.Installed{Status: "deployed", Version: "1", Values: "# a comment\nb: x\na: 1"}, chartplan.None},
		"another version":           {chartplan.Installed{Status: "deployed", Version: "2", Values: "{a: 1, b: x}"}, chartplan.Upgrade},
		"a text that was a number":  {chartplan.Installed{Status: "deployed", Version: "1", Values: `{a: "1", b: x}`}, chartplan.Upgrade},
		"failed":                    {chartplan.Installed{Status: "failed", Version: "1", Values: "{a: 1, b: x}"}, chartplan.Upgrade},
		"left by a killed upgrade":  {chartplan.Installed{Status: "pending-upgrade", Version: "1"}, chartplan.Recover},
		"left by a killed rollback": {chartplan.Installed{Status: "pending-rollback", Version: "1"}, chartplan.Recover},
	} {
		_, r, _ := proxy()
		r.Spec.Values = "{a: 1, b: x}"
		if got, err := chartplan.Operate(r, tt.has, "1"); err != nil || got != tt.want {
			t.Errorf("%s: got %s, want %s: %v", name, got, tt.want, err)
		}
		r.Spec.ReconcileStrategy, r.Annotations = caaph.InstallOnce, map[string]string{caaph.Installed: "true"}
		if got, err := chartplan.Operate(r, tt.has, "1"); err != nil || got != chartplan.None {
			t.Errorf("InstallOnce, %s: got %s: %v", name, got, err)
		}
	}
	_, r, _ := proxy()
	r.Spec.Values = "- no map"
	if _, err := chartplan.Operate(r, chartplan.Installed{Status: "deployed", Version: "1"}, "1"); err == nil {
		t.Error("values that are no map pass")
	}
}

func TestRemove(t *testing.T) {
	_, r, rome := proxy()
	leaving := rome
	leaving.Deleting = true
	for i, tt := range []struct {
		cluster *chartplan.Cluster
		answers bool
		want    chartplan.Removal
	}{
		{nil, false, chartplan.Forget}, {&rome, true, chartplan.Uninstall}, {&rome, false, chartplan.Retry},
		{&leaving, true, chartplan.Uninstall}, {&leaving, false, chartplan.Forget},
	} {
		if got := chartplan.Remove(r, tt.cluster, tt.answers); got != tt.want {
			t.Errorf("%d: got %s, want %s", i, got, tt.want)
		}
	}
	r.Spec.ReconcileStrategy = caaph.InstallOnce
	if got := chartplan.Remove(r, &rome, true); got != chartplan.Forget {
		t.Errorf("InstallOnce: %s", got)
	}
}

func TestAggregate(t *testing.T) {
	ready := func(name, status, message string) caaph.HelmReleaseProxy {
		r := caaph.HelmReleaseProxy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if status != "" {
			r.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionStatus(status), Message: message}}
		}
		return r
	}
	got := chartplan.Aggregate(nil, chartplan.Condition{}, chartplan.Condition{})
	// upstream counts none as ready, with the reason that its other conditions have (cluster-api-addon-provider-helm, aggregateHelmReleaseProxyReadyCondition)
	if got[0].Status != "True" || got[1] != (chartplan.Condition{Type: "HelmReleaseProxiesReady", Status: "True", Reason: "Ready"}) || got[2].Reason != "UpToDate" {
		t.Errorf("without releases: %+v", got)
	}
	got = chartplan.Aggregate([]caaph.HelmReleaseProxy{
		ready("b", "False", "no disk"), ready("a", "False", "no disk"), ready("c", "True", "fine"), ready("d", "", ""),
	}, chartplan.Condition{}, chartplan.Condition{})
	const want = "no disk (sources: HelmReleaseProxy/a, HelmReleaseProxy/b)"
	if got[1].Status != "False" || got[1].Message != want || got[0].Message != "* HelmReleaseProxiesReady: "+want {
		t.Errorf("with two failures: %+v", got)
	}
	late := ready("a", "True", "")
	late.Generation = 2
	had := chartplan.Condition{Type: "HelmReleaseProxiesReady", Status: "True", Reason: "InfoReported", Message: "as before"}
	got = chartplan.Aggregate([]caaph.HelmReleaseProxy{late}, chartplan.Condition{}, had)
	if got[1] != had || got[2].Message != "Helm release proxy 'a' is not updated yet" || got[0].Status != "False" {
		t.Errorf("while one is updated: %+v", got)
	}
	// its cluster is no longer selected; the deletion raises the generation
	leaving := ready("a", "False", "* HelmReleaseReady: cannot reach it")
	leaving.Generation, leaving.Status.ObservedGeneration, leaving.DeletionTimestamp, leaving.Spec.ClusterRef.Name = 3, 2, new(metav1.Now()), "oslo"
	got = chartplan.Aggregate([]caaph.HelmReleaseProxy{leaving, ready("b", "True", "")}, chartplan.Condition{}, had)
	const gone = "Helm release proxy 'a' is being deleted: its release is uninstalled from cluster 'oslo': HelmReleaseReady: cannot reach it"
	if got[2].Message != gone || got[1].Status != "False" || !strings.Contains(got[1].Message, "HelmReleaseProxy/a") {
		t.Errorf("while one is deleted: %+v", got)
	}
	reinstalled := chartplan.Condition{Type: "HelmReleaseProxySpecsUpToDate", Status: "False", Reason: "HelmReleaseProxyReinstalling", Message: "preparing"}
	if got = chartplan.Aggregate([]caaph.HelmReleaseProxy{leaving}, reinstalled, had); got[2] != reinstalled {
		t.Errorf("while one is reinstalled: %+v", got)
	}
}

func TestForeignReleasesAreFoundByOwner(t *testing.T) {
	_, r, _ := proxy()
	for name, test := range map[string]struct {
		has     chartplan.Installed
		change  func(*caaph.HelmReleaseProxy)
		foreign bool
	}{
		"none":                 {chartplan.Installed{}, nil, false},
		"of somebody":          {chartplan.Installed{Status: "deployed"}, nil, true},
		"pending of somebody":  {chartplan.Installed{Status: "pending-install"}, nil, true},
		"of another proxy":     {chartplan.Installed{Status: "deployed", Owner: "x"}, func(r *caaph.HelmReleaseProxy) { r.Status.Revision = 1 }, true},
		"ours":                 {chartplan.Installed{Status: "deployed", Owner: chartplan.Owner(r)}, nil, false},
		"upstream's":           {chartplan.Installed{Status: "deployed"}, func(r *caaph.HelmReleaseProxy) { r.Annotations = map[string]string{caaph.Installed: "true"} }, false},
		"upstream's, restored": {chartplan.Installed{Status: "failed"}, func(r *caaph.HelmReleaseProxy) { r.Status.Revision = 3 }, false},
		"taken over":           {chartplan.Installed{Status: "deployed", Owner: "x"}, func(r *caaph.HelmReleaseProxy) { r.Spec.Options.TakeOwnership = true }, false},
		"uninstalled":          {chartplan.Installed{Status: "uninstalled", Owner: "x"}, nil, false},
	} {
		r := *r.DeepCopyObject().(*caaph.HelmReleaseProxy)
		if test.change != nil {
			test.change(&r)
		}
		if got := chartplan.Foreign(r, test.has); got != test.foreign {
			t.Errorf("%s: foreign is %v", name, got)
		}
	}
}

// TestOwnReleasesAreFound is about releases of proxies that may take others over: they own only what they have taken.
func TestOwnReleasesAreFound(t *testing.T) {
	_, r, _ := proxy()
	r.Spec.Options.TakeOwnership = true
	ours, installed := chartplan.Owner(r), map[string]string{caaph.Installed: "true"}
	for name, test := range map[string]struct {
		owner       string
		annotations map[string]string
		revision    int
		owns        bool
		do          chartplan.Operation // with the wanted version and values
	}{
		"of somebody, never taken over":  {"", nil, 0, false, chartplan.Upgrade},
		"of another, never taken over":   {"x", nil, 0, false, chartplan.Upgrade},
		"taken over":                     {ours, installed, 2, true, chartplan.None},
		"taken over, hub killed":         {ours, nil, 0, true, chartplan.None},
		"taken over by another since":    {"x", installed, 2, false, chartplan.None},
		"upstream's":                     {"", installed, 1, true, chartplan.None},
		"upstream's, without annotation": {"", nil, 1, true, chartplan.None},
	} {
		r := *r.DeepCopyObject().(*caaph.HelmReleaseProxy)
		r.Annotations, r.Status.Revision = test.annotations, test.revision
		has := chartplan.Installed{Status: "deployed", Version: "1", Values: r.Spec.Values, Owner: test.owner}
		if chartplan.Foreign(r, has) {
			t.Errorf("%s: it may not be taken over", name)
		}
		if got := chartplan.Owns(r, has); got != test.owns {
			t.Errorf("%s: owns is %v", name, got)
		}
		if got, err := chartplan.Operate(r, has, "1"); err != nil || got != test.do {
			t.Errorf("%s: got %s, want %s: %v", name, got, test.do, err)
		}
	}
}

func TestNamesOfReleases(t *testing.T) {
	_, r, _ := proxy()
	r.UID, r.Spec.ReleaseName = "1", ""
	r.Spec.ChartName = "charts/" + strings.Repeat("long-", 20)
	name := chartplan.Name(r)
	if len(name) > 53 || !strings.HasPrefix(name, "long-long-") || name != chartplan.Name(r) {
		t.Errorf("name is %s", name)
	}
	r.UID = "2"
	if chartplan.Name(r) == name {
		t.Error("two proxies have the same release")
	}
}

// TestEqualChartVersionsMatch has versions as repositories find them: with a v in front, and with build metadata that was not
// requested.
func TestEqualChartVersionsMatch(t *testing.T) {
	_, r, _ := proxy()
	for _, tt := range []struct {
		has, want string
		do        chartplan.Operation
	}{
		{"v3.30.2", "3.30.2", chartplan.None}, {"3.30.2", "v3.30.2", chartplan.None}, {"1.2.3+4", "1.2.3", chartplan.None}, {"test", "test", chartplan.None},
		{"1.2.3+4", "1.2.3+5", chartplan.Upgrade}, {"1.2.3", "1.2.3+5", chartplan.Upgrade}, {"1.2.3-rc.1", "1.2.3", chartplan.Upgrade}, {"test", "1.2.3", chartplan.Upgrade},
	} {
		has := chartplan.Installed{Status: "deployed", Version: tt.has, Values: r.Spec.Values}
		if got, err := chartplan.Operate(r, has, tt.want); err != nil || got != tt.do {
			t.Errorf("a release of %s, and %s is wanted: %s, %v", tt.has, tt.want, got, err)
		}
	}
}

// TestReusedValuesNeedNoUpgrade: Helm keeps values that the proxy does not have.
func TestReusedValuesNeedNoUpgrade(t *testing.T) {
	_, r, _ := proxy()
	r.Spec.Values = "a: 1\n"
	has := chartplan.Installed{Status: "deployed", Version: "1", Values: "a: 1\nb: 2\n"}
	for reuse, want := range map[bool]chartplan.Operation{false: chartplan.Upgrade, true: chartplan.None} {
		r.Spec.Options.Upgrade.ReuseValues = reuse
		if got, err := chartplan.Operate(r, has, "1"); err != nil || got != want {
			t.Errorf("reuse %v: %s, %v", reuse, got, err)
		}
	}
}
