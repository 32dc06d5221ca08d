package helm_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/helm"
)

func TestModuleFilesThatBelongToItsChart(t *testing.T) {
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

// TestDefinitionsLieBelowCRDs: at any depth. The prefixes are a list as people write it, with a space.
func TestDefinitionsLieBelowCRDs(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"crds/b.yaml", "crds/doc-b.yaml", "crds/_c.yaml", "crds/README.md", "crds/v1/a.yaml", "crds/v1/deep/doc-a.yaml", "crds/v1/deep/z.yaml", "crds/doc-old/x.yaml", "templates/t.yaml"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for prefixes, want := range map[string]string{
		"doc-,_": "b.yaml doc-old/x.yaml v1/a.yaml v1/deep/z.yaml", "doc-, _": "b.yaml doc-old/x.yaml v1/a.yaml v1/deep/z.yaml", " _ ,\tdoc-,": "b.yaml doc-old/x.yaml v1/a.yaml v1/deep/z.yaml",
		"": "_c.yaml b.yaml doc-b.yaml doc-old/x.yaml v1/a.yaml v1/deep/doc-a.yaml v1/deep/z.yaml",
	} {
		files, err := helm.DefinitionFiles(dir, prefixes)
		if err != nil {
			t.Fatal(err)
		}
		for i := range files {
			files[i] = strings.TrimPrefix(files[i], filepath.Join(dir, "crds")+"/")
		}
		if got := strings.Join(files, " "); got != want {
			t.Errorf("without %q: %s, want %s", prefixes, got, want)
		}
	}
	if files, err := helm.DefinitionFiles(filepath.Join(dir, "templates"), ""); err != nil || files != nil {
		t.Errorf("%v, %v", files, err)
	}
}
