package catalog

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/testing/upstreamcases"
	"github.com/sealift/sealift/spec"
)

// TestKurlGridSpecsAreRead reads every Installer of kURL's own tests. All of them are well formed, and the only reason to refuse one
// is a Kubernetes version before 1.31.
func TestKurlGridSpecsAreRead(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(upstreamcases.Path(t, "testgrid"), "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	accepted, refused := 0, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// kURL's runner fills these in
		filled := strings.NewReplacer("__testver__", "latest", "__testdist__", "https://example.com/package.tar.gz").Replace(string(text))
		var tests []struct {
			Name          string
			InstallerSpec map[string]any `yaml:"installerSpec"`
			UpgradeSpec   map[string]any `yaml:"upgradeSpec"`
		}
		if err := yaml.Unmarshal([]byte(filled), &tests); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, one := range tests {
			for _, body := range []map[string]any{one.InstallerSpec, one.UpgradeSpec} {
				if len(body) == 0 {
					continue
				}
				document, err := yaml.Marshal(map[string]any{"apiVersion": spec.KurlAPIVersion, "kind": spec.Kind, "metadata": map[string]any{"name": "grid"}, "spec": body})
				if err != nil {
					t.Fatal(err)
				}
				i, err := spec.Parse(filepath.Base(file)+" "+one.Name, bytes.NewReader(document))
				if err != nil {
					t.Error(err)
					continue
				}
				at := slices.IndexFunc(i.AddOns, func(a spec.AddOn) bool { return a.Key == "kubernetes" })
				version := i.AddOns[at].Version
				found := Check(i, nil)
				if version == Latest || CompareVersions(version, "1.31") >= 0 {
					accepted++
					if len(found) > 0 {
						t.Errorf("refused: %v", found)
					}
					continue
				}
				refused++
				if len(found) != 1 || !strings.HasPrefix(found[0].Message, "kubernetes.version "+version+": ") {
					t.Errorf("%s with Kubernetes %s: %v", one.Name, version, found)
				}
			}
		}
	}
	if accepted == 0 || refused == 0 {
		t.Errorf("%d Installers are accepted, %d are refused", accepted, refused)
	}
	t.Logf("%d Installers are accepted, %d are refused", accepted, refused)
}
