package caaph_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
)

func TestRepoURLRows(t *testing.T) {
	type row struct {
		ExpectErr bool
		RepoURL   string
	}
	for _, r := range upstreamcases.Rows[row](t, "fleet/caaph/api_v1alpha1__helmchartproxy_url__TestRepoURLValidation.json") {
		c := caaph.Chart{RepoURL: r.Case.RepoURL}
		if err := c.Validate(nil); (err != nil) != r.Case.ExpectErr {
			t.Errorf("%s: %s: %v", r.Name, r.Case.RepoURL, err)
		}
	}
}

// TestSamplesParse reads users' files strictly and checks them as admission does.
func TestSamplesParse(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(upstreamcases.Path(t, "fleet/samples/caaph"), "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var hcp caaph.HelmChartProxy
		if err := yaml.UnmarshalStrict(text, &hcp); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if err := hcp.Spec.Validate(nil); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestValidate(t *testing.T) {
	for url, ok := range map[string]bool{
		"https://charts.example.com": true, "Https://a": true, "oci://ghcr.io/charts": true,
		"OCI://ghcr.io/charts": false, "http://a": false, "file:///charts": false, "https://": false, "oci:///x": false,
		"": false, "charts": false, "https://:443": false, "ftp://a": false, "https://a b": false, "://": false,
	} {
		c := caaph.Chart{RepoURL: url}
		if err := c.Validate(nil); (err == nil) != ok {
			t.Errorf("%q: %v", url, err)
		}
	}
	for _, url := range []string{"http://10.0.0.1:8080/charts", "file:///charts"} {
		c := caaph.Chart{RepoURL: url}
		if err := c.Validate([]string{"http", "file"}); err != nil {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestDefault(t *testing.T) {
	c := caaph.Chart{Options: caaph.Options{Atomic: true}}
	c.Default()
	if c.ReleaseNamespace != "default" || !c.Options.Wait || c.Options.Timeout.Duration != 10*time.Minute {
		t.Errorf("got %+v", c)
	}
}

func TestImmutableFieldsCannotChange(t *testing.T) {
	old := caaph.HelmReleaseProxySpec{Chart: caaph.Chart{RepoURL: "https://a", ChartName: "c", ReleaseNamespace: "n"}}
	same := old
	same.ReconcileStrategy, same.Version = caaph.Continuous, "2"
	if err := caaph.ValidateReleaseUpdate(old, same); err != nil {
		t.Error(err)
	}
	now := caaph.HelmReleaseProxySpec{Chart: caaph.Chart{RepoURL: "https://b", ChartName: "d", ReleaseNamespace: "m", ReconcileStrategy: caaph.InstallOnce}}
	const want = `spec.repoURL "https://b": field is immutable
spec.chartName "d": field is immutable
spec.namespace "m": field is immutable
spec.reconcileStrategy "InstallOnce": field is immutable`
	if err := caaph.ValidateReleaseUpdate(old, now); err == nil || err.Error() != want {
		t.Error(err)
	}
	if err := caaph.ValidateChartUpdate(caaph.HelmChartProxySpec{}, caaph.HelmChartProxySpec{Chart: now.Chart}); err == nil {
		t.Error("the strategy of a HelmChartProxy can be changed")
	}
}
