package release

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/helm"
)

// TestDefaultsOfChartStay: the operator's sections and the module's flag are removed, since Helm would merge them with the
// operator's values.
func TestDefaultsOfChartStay(t *testing.T) {
	files := map[string][]byte{valuesFile: []byte("replicaCount: 2\ndebug: true\nmetricsEnabled: false\nmyWeb: {text: from the file}\nmyWebEnabled: true\n")}
	given := map[string]any{"myWeb": map[string]any{"text": "given"}}
	if err := withoutGiven(files, helm.Wanted{Name: "my-web", Values: given}); err != nil {
		t.Fatal(err)
	}
	var left map[string]any
	if err := yaml.Unmarshal(files[valuesFile], &left); err != nil {
		t.Fatal(err)
	}
	if want := map[string]any{"replicaCount": float64(2), "debug": true, "metricsEnabled": false}; !maps.Equal(left, want) {
		t.Errorf("the chart has %v, want %v", left, want)
	}
}

// TestTemplatesMayReadFilesOfTheirModule: a folder with a Chart.yaml is a chart as Helm reads it, so that .Files has hooks and definitions. If
// the templates did not find their definitions, an upgrade would remove them.
func TestTemplatesMayReadFilesOfTheirModule(t *testing.T) {
	dir := t.TempDir()
	add := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := func(names ...string) {
		t.Helper()
		files, err := readModule(helm.Wanted{Name: "web", Dir: dir})
		if got := slices.Sorted(maps.Keys(files)); err != nil || !slices.Equal(got, names) {
			t.Errorf("%v, the chart has %s", err, strings.Join(got, " "))
		}
	}
	add(".helmignore", ".helmignore\n*.md\n")
	for _, name := range []string{"README.md", "crds/x.yaml", "enabled", "hooks/lib/h.sh", "images/x", "openapi/values.yaml", "templates/c.yaml"} {
		add(name, "")
	}
	want("Chart.yaml", "images/x", "templates/c.yaml")
	add("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n")
	want("Chart.yaml", "crds/x.yaml", "enabled", "hooks/lib/h.sh", "images/x", "openapi/values.yaml", "templates/c.yaml")
	add("Manifest", "")
	want("Chart.yaml", "templates/c.yaml")
}
