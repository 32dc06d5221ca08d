package engine_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/helm/engine"
	"github.com/sealift/sealift/internal/sandbox"
	"github.com/sealift/sealift/internal/testing/fixture"
)

func TestMain(m *testing.M) {
	sandbox.Main(engine.Tasks()...)
	os.Exit(m.Run())
}

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  replicas: {{ .Values.replicas }}
  template:
    metadata: {annotations: {made: "{{ now | date "2006-01-02" }}"}}
`

// files is a chart that renders; changes replace or add files.
func files(changes map[string]string) map[string]string {
	all := map[string]string{
		"Chart.yaml":                "apiVersion: v2\nname: hello\nversion: 1.2.3\nappVersion: \"9\"\n",
		"values.yaml":               "replicas: 1000000\n",
		"templates/deployment.yaml": deployment,
		"templates/NOTES.txt":       "installed",
	}
	maps.Copy(all, changes)
	return all
}

func render(t *testing.T, values string, changes map[string]string) (helm.Rendered, error) {
	t.Helper()
	archive := fixture.ChartArchive(t, "hello", files(changes))
	return engine.Renderer{}.Render(t.Context(), archive, helm.Release{Name: "hello", Namespace: "greetings", Values: []byte(values)})
}

func TestChartIsRenderedForItsNamespace(t *testing.T) {
	got, err := render(t, "replicas: 2\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := `---
# Source: the namespace of the release
apiVersion: v1
kind: Namespace
metadata:
  name: greetings
---
# Source: hello/templates/deployment.yaml
apiVersion: apps/v1
kind: Deployment
metadata: {name: hello, namespace: greetings}
spec:
  replicas: 2
  template:
    metadata: {annotations: {made: "1980-01-01"}}
`
	if string(got.Document()) != want || got.Version != "1.2.3" || got.AppVersion != "9" {
		t.Errorf("%+v\n%s", got, got.Document())
	}
	if got, err = render(t, "", nil); err != nil || !strings.Contains(string(got.Document()), "replicas: 1e+06\n") && !strings.Contains(string(got.Document()), "replicas: 1000000\n") {
		t.Errorf("the chart's own value: %v\n%s", err, got.Document())
	}
}

// TestLastTextHasLineBreaksOfHelm expects what Helm puts into a release: one line break after each document.
func TestLastTextHasLineBreaksOfHelm(t *testing.T) {
	const config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  a: |\n    one\n  b: |+\n    two\n"
	got, err := render(t, "", map[string]string{"templates/deployment.yaml": config})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range got.Objects {
		var read struct{ Data map[string]string }
		if err := yaml.Unmarshal(o.YAML, &read); err != nil {
			t.Fatal(err)
		}
		if o.Kind == "ConfigMap" && (read.Data["a"] != "one\n" || read.Data["b"] != "two\n\n") {
			t.Errorf("%q", read.Data)
		}
	}
}

func TestObjectsComeInApplyOrder(t *testing.T) {
	object := func(kind, name, annotations string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: %s\nmetadata: {name: %s%s}\n", kind, name, annotations)
	}
	hook := func(events string, weight int) string {
		return fmt.Sprintf(`, annotations: {"helm.sh/hook": "%s", "helm.sh/hook-weight": "%d"}`, events, weight)
	}
	block := "apiVersion: v1\nkind: Pod\nmetadata:\n  name: tested\n  annotations:\n    helm.sh/hook: test\n"
	got, err := render(t, "", map[string]string{
		"templates/a.yaml": object("Service", "s", "") + "---\n" + object("ConfigMap", "c", ", namespace: kube-system"),
		"templates/b.yaml": object("ConfigMap", "after", hook("post-install,post-upgrade", 0)) + "---\n" + object("Secret", "second", hook("pre-install", 5)) +
			"---\n" + object("Secret", "first", hook("pre-install", -5)) + "---\n" + object("Secret", "upgrade", hook("pre-upgrade", 0)),
		"templates/c.yaml": block,
		"templates/d.yaml": "apiVersion: example.org/v1\nkind: Everywhere\nmetadata: {name: e}\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: r}\n",
		"crds/e.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: everywheres.example.org}\n" +
			"spec: {group: example.org, scope: Cluster, names: {kind: Everywhere}}\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	names := func(objects []helm.Object) (list []string) {
		for _, o := range objects {
			list = append(list, o.String())
		}
		return list
	}
	want := []string{
		"CustomResourceDefinition everywheres.example.org", "Namespace greetings", "Secret greetings/first", "Secret greetings/second",
		"ConfigMap kube-system/c", "ClusterRole r", "Service greetings/s", "Deployment greetings/hello", "Everywhere e", "ConfigMap greetings/after",
	}
	if n := names(got.Objects); !slices.Equal(n, want) {
		t.Errorf("objects are\n%s", strings.Join(n, "\n"))
	}
	if n := names(got.Skipped); !slices.Equal(slices.Sorted(slices.Values(n)), []string{"Pod greetings/tested", "Secret greetings/upgrade"}) {
		t.Errorf("skipped are\n%s", strings.Join(n, "\n"))
	}
}

func TestChartWithLookupIsNamed(t *testing.T) {
	got, err := render(t, "", map[string]string{"templates/deployment.yaml": `{{ if not (lookup "v1" "Secret" "a" "b") }}` + deployment + "{{ end }}"})
	if err != nil || !slices.Equal(got.Lookups, []string{"v1 Secret"}) {
		t.Errorf("%v, %v", got.Lookups, err)
	}
}

func TestValuesOfDisabledDependenciesAreKept(t *testing.T) {
	got, err := render(t, "sidecar: {enabled: false}\n", map[string]string{
		"Chart.yaml":                         files(nil)["Chart.yaml"] + "dependencies: [{name: sidecar, version: 1.0.0, condition: sidecar.enabled}]\n",
		"charts/sidecar/Chart.yaml":          "apiVersion: v2\nname: sidecar\nversion: 1.0.0\n",
		"charts/sidecar/values.yaml":         "image: example.org/sidecar:1\n",
		"charts/sidecar/templates/none.yaml": "{{ fail \"it is switched off\" }}",
	})
	if err != nil {
		t.Fatal(err)
	}
	if sidecar, ok := got.Values["sidecar"].(map[string]any); !ok || sidecar["image"] != "example.org/sidecar:1" {
		t.Errorf("values are %v", got.Values)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	tests := map[string]struct {
		values string
		files  map[string]string
		want   string
	}{
		"a template that fails": {"", map[string]string{"templates/x.yaml": "a: b\n{{ fail \"set a password\" }}\n"}, "hello/templates/x.yaml:2:3"},
		"a value that is needed": {"", map[string]string{"templates/x.yaml": `{{ required "password is needed" .Values.password }}`},
			"password is needed"},
		"a template that is none":  {"", map[string]string{"templates/x.yaml": "{{ if }}"}, "hello/templates/x.yaml:1"},
		"output that is not YAML":  {"", map[string]string{"templates/x.yaml": "a: b: c\n"}, "hello/templates/x.yaml"},
		"an object without a kind": {"", map[string]string{"templates/x.yaml": "metadata: {name: x}\n"}, "hello/templates/x.yaml: an object has no kind"},
		"a hook of Helm 2": {"", map[string]string{"templates/x.yaml": "apiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n    \"helm.sh/hook\": crd-install\n"},
			`hello/templates/x.yaml: Helm does not know the hook "crd-install"`},
		"a library":             {"", map[string]string{"Chart.yaml": files(nil)["Chart.yaml"] + "type: library\n"}, "a library"},
		"a missing dependency":  {"", map[string]string{"Chart.yaml": files(nil)["Chart.yaml"] + "dependencies: [{name: gone, version: 1.0.0}]\n"}, "lacks the chart gone"},
		"another Kubernetes":    {"", map[string]string{"Chart.yaml": files(nil)["Chart.yaml"] + "kubeVersion: \"< 1.20.0\"\n"}, "the chart requires Kubernetes < 1.20.0"},
		"values against schema": {"replicas: many\n", map[string]string{"values.schema.json": `{"properties": {"replicas": {"type": "integer"}}}`}, "replicas"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := render(t, test.values, test.files)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n  ") {
				t.Errorf("got %v", err)
			}
		})
	}
	var wrong *helm.ValuesError
	if _, err := render(t, "a: 1\nb: [\n", nil); !errors.As(err, &wrong) || wrong.Line == 0 {
		t.Errorf("values that are not YAML: %v", err)
	}
	if _, err := (engine.Renderer{}).Render(t.Context(), []byte("no archive"), helm.Release{Name: "a"}); err == nil {
		t.Error("what is not an archive is rendered")
	}
}

func TestChartWithRandomValuesIsRefused(t *testing.T) {
	password := "apiVersion: v1\nkind: Secret\nmetadata: {name: p}\nstringData: {p: {{ .Values.password | default (randAlphaNum 12) }}}\n"
	_, err := render(t, "", map[string]string{"templates/p.yaml": password})
	var random *helm.RandomError
	if !errors.As(err, &random) || random.Object.String() != "Secret greetings/p" {
		t.Errorf("got %v", err)
	}
	if _, err := render(t, "password: mine\n", map[string]string{"templates/p.yaml": password}); err != nil {
		t.Errorf("with the value given: %v", err)
	}
}

func FuzzRender(f *testing.F) {
	for _, seed := range []string{deployment, "a: &a [*a]", "{{ include \"x\" . }}", "kind: List\napiVersion: v1\nmetadata: []\n", "---\n---\n- 1\n", "? [a]\n: b\nkind: X\napiVersion: v1\nmetadata: {}\n"} {
		f.Add(seed, "replicas: 1\n")
	}
	f.Add("", "a: [")
	f.Fuzz(func(t *testing.T, template, values string) {
		archive := fixture.ChartArchive(t, "hello", files(map[string]string{"templates/x.yaml": template}))
		_, _ = engine.Renderer{}.Render(t.Context(), archive, helm.Release{Name: "hello", Namespace: "greetings", Values: []byte(values)})
	})
}
