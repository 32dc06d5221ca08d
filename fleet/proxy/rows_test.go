package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/chartplan"
	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/helm/source"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
)

// answers is a Provider that responds like the Helm of a row.
type answers struct {
	has, then chartplan.Installed
	fails     error
}

func (h answers) Read(context.Context, Target) (chartplan.Installed, error) {
	if h.then.Status == "" {
		return h.has, h.fails
	}
	return h.has, nil
}

func (h answers) Version(_ context.Context, t Target, _ string) (string, error) {
	return t.Proxy.Spec.Version, nil
}

func (h answers) Run(context.Context, Target, chartplan.Operation) (chartplan.Installed, error) {
	return h.then, h.fails
}

func (h answers) Remove(context.Context, Target) error { return nil }

// helmSays is the response of Helm in each row. The rows have it only in their names.
var helmSays = map[string]answers{
	"successfully install a Helm release":                                      {then: chartplan.Installed{Status: "deployed", Revision: 1}},
	"successfully install a Helm release with a generated name":                {then: chartplan.Installed{Status: "deployed", Revision: 1}},
	"successfully install a Helm release when strategy is InstallOnce":         {then: chartplan.Installed{Status: "deployed", Revision: 1}},
	"do nothing if already successfully and installed strategy is InstallOnce": {has: chartplan.Installed{Status: "deployed", Revision: 1}},
	"Helm release pending":                            {then: chartplan.Installed{Status: "pending-install", Revision: 1}},
	"Helm release in a failed state, no client error": {then: chartplan.Installed{Status: "failed", Revision: 1}},
	"Helm client returns error":                       {then: chartplan.Installed{Status: "failed"}, fails: errors.New("internal error")},
	"successfully uninstall a Helm release":           {has: chartplan.Installed{Status: "deployed", Revision: 1}},
	"Helm release already uninstalled":                {},
	"error attempting to get Helm release":            {fails: errors.New("internal error")},
	"do nothing when strategy is InstallOnce":         {has: chartplan.Installed{Status: "deployed", Revision: 1}},
}

// left is the result of a row's reconcile.
type left struct {
	HelmReleaseProxy struct {
		Metadata metav1.ObjectMeta
		Spec     caaph.HelmReleaseProxySpec
		Status   struct {
			Conditions []chartplan.Condition
			Status     string
			Revision   int
		}
	}
	HelmChartProxy struct {
		Status struct{ Conditions []chartplan.Condition }
	}
}

func leftBehind(t *testing.T, observed []upstreamcases.Observation) (l left) {
	t.Helper()
	for _, o := range observed {
		if err := json.Unmarshal(o.Value, &l); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func TestReleaseRows(t *testing.T) {
	type row struct {
		ExpectedError    string
		HelmReleaseProxy caaph.HelmReleaseProxy
	}
	for file, do := range map[string]func(*attempt) error{
		"TestReconcileNormal": func(a *attempt) error { return a.keep(t.Context()) },
		"TestReconcileDelete": func(a *attempt) error { return a.remove(t.Context(), &chartplan.Cluster{}) },
	} {
		for _, r := range upstreamcases.Rows[row](t, "fleet/caaph/controllers_helmreleaseproxy__helmreleaseproxy_controller__"+file+".json") {
			t.Run(file+"/"+r.Name, func(t *testing.T) {
				says, known := helmSays[r.Name]
				if !known {
					t.Fatal("the test does not know what Helm says")
				}
				want := leftBehind(t, r.Observed).HelmReleaseProxy
				hrp := r.Case.HelmReleaseProxy
				says.has.Owner, says.has.Version = chartplan.Owner(hrp), hrp.Spec.Version
				a := &attempt{place: &onCluster{}, provider: says, hrp: &hrp, base: hrp.DeepCopyObject().(*caaph.HelmReleaseProxy)}
				if err := do(a); (err != nil) != (r.Case.ExpectedError != "") || err != nil && err.Error() != r.Case.ExpectedError {
					t.Fatalf("got error %v, want %q", err, r.Case.ExpectedError)
				}
				if r.Case.HelmReleaseProxy.Spec.ReleaseName == "" && hrp.Spec.ReleaseName != "" {
					hrp.Spec.ReleaseName = want.Spec.ReleaseName // Helm chooses another name there
				}
				upstreamcases.Same(t, "metadata", []any{hrp.Annotations, hrp.Labels}, []any{want.Metadata.Annotations, want.Metadata.Labels})
				upstreamcases.Same(t, "spec", hrp.Spec, want.Spec)
				upstreamcases.Same(t, "status", []any{hrp.Status.Status, hrp.Status.Revision}, []any{want.Status.Status, want.Status.Revision})
				for _, c := range want.Status.Conditions {
					upstreamcases.Same(t, "condition", condition(hrp.Status.Conditions, c.Type), c)
				}
			})
		}
	}
}

// noChart is a place and a Provider without a way to the chart.
type noChart struct {
	onCluster
	answers
}

func (noChart) access(context.Context) (source.Access, string, error) {
	return source.Access{}, "GetCredentialsFailed", errors.New("there is no Secret")
}

func (noChart) Version(context.Context, Target, string) (string, error) {
	return "", errors.New("no repository answers")
}

// TestInstalledOnceNeedsNoChart keeps releases at any version, after their chart and the Secret for it are gone.
func TestInstalledOnceNeedsNoChart(t *testing.T) {
	for strategy, want := range map[string]string{caaph.InstallOnce: "True", "": "False"} {
		hrp := &caaph.HelmReleaseProxy{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{caaph.Installed: "true"}}}
		hrp.Spec.ReconcileStrategy, hrp.Spec.Version = strategy, ">=1"
		p := &noChart{answers: answers{has: chartplan.Installed{Status: "deployed", Revision: 1, Version: "1.0.0", Owner: chartplan.Owner(*hrp)}}}
		a := &attempt{place: p, provider: p, hrp: hrp, base: hrp.DeepCopyObject().(*caaph.HelmReleaseProxy)}
		if err := a.keep(t.Context()); (err == nil) != (want == "True") {
			t.Errorf("%q: %v", strategy, err)
		}
		if got := condition(hrp.Status.Conditions, "Ready"); got.Status != want {
			t.Errorf("%q: Ready is %+v", strategy, got)
		}
	}
}

// carriedHub is a hub without a Cluster object, so without a way to any chart.
type carriedHub struct {
	client.Client
	releases []caaph.HelmReleaseProxy
}

func (h carriedHub) RESTMapper() meta.RESTMapper { return meta.NewDefaultRESTMapper(nil) }

func (h carriedHub) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	o.SetName(key.Name)
	o.SetAnnotations(map[string]string{inventory.Carried: "true"})
	return nil
}

func (h carriedHub) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*caaph.HelmReleaseProxyList).Items = h.releases //nolint:forcetypeassert // it lists nothing else
	return nil
}

// TestInstalledOnceStopsNoParcel packs releases whose chart is gone.
func TestInstalledOnceStopsNoParcel(t *testing.T) {
	for name, c := range map[string]struct {
		strategy, installed string
		deleted             bool
		list, left          int
		fails               bool
	}{
		"installed once":     {strategy: caaph.InstallOnce, installed: "true", left: 1},
		"not yet installed":  {strategy: caaph.InstallOnce, fails: true},
		"always kept":        {installed: "true", fails: true},
		"installed, removed": {strategy: caaph.InstallOnce, installed: "true", deleted: true, list: 1},
	} {
		hrp := caaph.HelmReleaseProxy{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ship", Annotations: map[string]string{caaph.Installed: c.installed, packed: "true"}}}
		hrp.Spec.ReconcileStrategy, hrp.Spec.ClusterRef.Name = c.strategy, "ship"
		if c.deleted {
			hrp.DeletionTimestamp = new(metav1.Now())
		}
		list, charts, left, err := Carrier{Client: carriedHub{releases: []caaph.HelmReleaseProxy{hrp}}}.Releases(t.Context(), "ship")
		if (err != nil) != c.fails || len(list) != c.list || len(left) != c.left || len(charts) != 0 {
			t.Errorf("%s: %d releases, %d charts, left out %v, error %v", name, len(list), len(charts), left, err)
		}
	}
}

// TestValuesRows has the condition of values that cannot be parsed.
func TestValuesRows(t *testing.T) {
	type row struct {
		Cluster        map[string]any
		ExpectedError  string
		HelmChartProxy caaph.HelmChartProxy
	}
	rows := upstreamcases.Rows[row](t, "fleet/caaph/controllers_helmchartproxy__helmchartproxy_controller_phases__TestReconcileForCluster.json")
	for _, r := range rows {
		o := &unstructured.Unstructured{Object: r.Case.Cluster}
		p := &pass{ChartReconciler: &ChartReconciler{}, hcp: &r.Case.HelmChartProxy}
		p.decide(t.Context(), summary(o), o)
		if got := errors.Join(p.errs...); (got != nil) != (r.Case.ExpectedError != "") || got != nil && got.Error() != r.Case.ExpectedError {
			t.Errorf("%s: got error %v, want %q", r.Name, got, r.Case.ExpectedError)
		}
		for _, c := range leftBehind(t, r.Observed).HelmChartProxy.Status.Conditions {
			if c.Reason == valuesFailed {
				upstreamcases.Same(t, r.Name, p.problem, c)
			}
		}
	}
}

// TestUnparsableValuesAreRefused has the words of upstream's own test.
func TestUnparsableValuesAreRefused(t *testing.T) {
	hcp := &caaph.HelmChartProxy{}
	hcp.Spec.ChartName, hcp.Spec.ValuesTemplate = "test-chart-name", "apiServerPort: {{ .Cluster.invalid-path }}"
	p := &pass{ChartReconciler: &ChartReconciler{}, hcp: hcp}
	p.decide(t.Context(), chartplan.Cluster{Name: "test-cluster"}, &unstructured.Unstructured{Object: map[string]any{}})
	const want = "failed to parse values on cluster test-cluster: template: test-chart-name-test-cluster:1: bad character U+002D '-'"
	if p.problem.Reason != "ValueParsingFailed" || p.problem.Message != want {
		t.Errorf("got %+v", p.problem)
	}
}

// TestTemplatesReadOnlyWhatTheyName: an object that a cluster refers to may be missing, or unreadable for the hub.
func TestTemplatesReadOnlyWhatTheyName(t *testing.T) {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"controlPlaneEndpoint": map[string]any{"host": "192.0.2.1"},
		"controlPlaneRef":      map[string]any{"apiVersion": "example.com/v1", "kind": "Plane", "name": "a"},
		"infrastructureRef":    map[string]any{"apiVersion": "example.com/v1", "kind": "Ground", "name": "a"},
	}}}
	for text, reads := range map[string]bool{
		"{{ .Cluster.Spec.ControlPlaneEndpoint.Host }}": false, "{{ .Cluster.Spec.ControlPlaneRef.Name }}": false, "{{ .Cluster.spec.controlPlaneRef.name }}": false,
		"{{ .ControlPlane.spec }}": true, "{{ .InfraCluster }}": true, `{{ (index . "ControlPlane").spec }}`: true,
	} {
		hcp := &caaph.HelmChartProxy{}
		hcp.Spec.ValuesTemplate = text
		p := &pass{ChartReconciler: &ChartReconciler{clusters: &clusters{}}, hcp: hcp}
		if _, err := p.render(t.Context(), chartplan.Cluster{Name: "rome"}, o); (err != nil) != reads {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestRemovalReportsRelease: the object stays if it has another finalizer, or the cluster does not answer.
func TestRemovalReportsRelease(t *testing.T) {
	for name, tt := range map[string]struct {
		says answers
		want string
	}{
		"removed":            {answers{has: chartplan.Installed{Status: "deployed"}}, "False HelmReleaseDeleted "},
		"not there":          {answers{}, "False HelmReleaseDeleted "},
		"it does not answer": {answers{fails: errors.New("no route")}, "False HelmReleaseGetFailed no route"},
	} {
		hrp := &caaph.HelmReleaseProxy{}
		tt.says.has.Owner = chartplan.Owner(*hrp)
		a := &attempt{place: &onCluster{}, provider: tt.says, hrp: hrp, base: &caaph.HelmReleaseProxy{}}
		_ = a.remove(t.Context(), &chartplan.Cluster{})
		if c := condition(hrp.Status.Conditions, releaseReady); c.Status+" "+c.Reason+" "+c.Message != tt.want {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// secrets are the Secrets of a hub, by their names.
type secrets map[string]map[string][]byte

func (s secrets) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	data, found := s[key.Name]
	if !found {
		return errors.New("not found")
	}
	into.(*corev1.Secret).Data = data
	return nil
}

func (secrets) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// TestRegistryClientRows has certificate authorities as files upstream; here they are in Secrets.
func TestRegistryClientRows(t *testing.T) {
	type row struct {
		CAFilePath            string
		InsecureSkipTLSVerify bool
		AssertErr             struct{ Expected json.RawMessage }
	}
	hub := secrets{"empty-file": {"ca.crt": nil}, "ca-bundle.pem": {"ca.crt": []byte("PEM")}}
	for _, r := range upstreamcases.Rows[row](t, "fleet/caaph/internal__helm_client__TestNewDefaultRegistryClient.json") {
		hrp := &caaph.HelmReleaseProxy{}
		hrp.Spec.TLSConfig = &caaph.TLSConfig{InsecureSkipTLSVerify: r.Case.InsecureSkipTLSVerify}
		if path := r.Case.CAFilePath; path != "" {
			hrp.Spec.TLSConfig.CASecret = &corev1.SecretReference{Name: path[strings.LastIndex(path, "/")+1:]}
		}
		access, reason, err := accessOf(t.Context(), hub, hrp, nil)
		if fails := len(r.Case.AssertErr.Expected) > 0; (err != nil) != fails || fails && reason != "GetCACertificateFailed" {
			t.Errorf("%s: %s %v", r.Name, reason, err)
		}
		if access.Insecure != r.Case.InsecureSkipTLSVerify {
			t.Errorf("%s: %+v", r.Name, access)
		}
	}
}
