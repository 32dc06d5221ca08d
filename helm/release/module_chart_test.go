package release

import (
	"maps"
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
