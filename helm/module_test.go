package helm_test

import (
	"testing"

	"github.com/sealift/sealift/helm"
)

func TestPartsOfAModuleThatAreItsChart(t *testing.T) {
	for name, c := range map[string]struct{ module, addOn bool }{
		"Chart.yaml": {true, true}, "templates/x.yaml": {true, true}, "charts/a/templates/hooks/x": {true, true}, "values.yaml": {true, true}, "files/Manifest": {true, true},
		"hooks/h.sh": {false, false}, "openapi/values.yaml": {false, false}, "crds/x.yaml": {false, false}, "enabled": {false, false},
		"images/blobs/sha256/x": {true, false}, "Manifest": {true, false}, "install.sh": {true, false}, "images": {true, true},
	} {
		if got := helm.InModuleChart(name, false); got != c.module {
			t.Errorf("%s of a module: %v", name, got)
		}
		if got := helm.InModuleChart(name, true); got != c.addOn {
			t.Errorf("%s of an add-on: %v", name, got)
		}
	}
	for name, want := range map[string]string{"ingress-nginx": "ingressNginx", "module-1": "module1", "a": "a", "with--two": "withTwo"} {
		if got := helm.ModuleKey(name); got != want {
			t.Errorf("the key of %s is %s", name, got)
		}
	}
}
