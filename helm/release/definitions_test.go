package release

import (
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	releasecommon "helm.sh/helm/v4/pkg/release/common"
	v1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
)

// aDefinition is a definition as far as manifests are read for.
func aDefinition(name, more string) string {
	return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " + name + more + "}\n"
}

// TestUpgradeKeepsDefinitionsOfRelease makes manifests of upgrades for a release that has definitions in its deployed revision, and others
// in one that failed since.
func TestUpgradeKeepsDefinitionsOfRelease(t *testing.T) {
	s := &session{cfg: action.NewConfiguration()}
	s.cfg.Releases = storage.Init(driver.NewMemory())
	for i, r := range []struct {
		status   releasecommon.Status
		manifest string
	}{
		{releasecommon.StatusDeployed, "---\n# Source: web/crds/a.yaml\n" + aDefinition("as", "") + "---\n" + aDefinition("templates", "")},
		{releasecommon.StatusFailed, "---\napiVersion: v1\nkind: List\nitems:\n- {kind: CustomResourceDefinition, metadata: {name: bs}}\n"},
	} {
		err := s.cfg.Releases.Create(&v1.Release{Name: "web", Namespace: "default", Version: i + 1, Manifest: r.manifest, Info: &v1.Info{Status: r.status}})
		if err != nil {
			t.Fatal(err)
		}
	}
	files := map[string][]byte{
		"Chart.yaml":       []byte("apiVersion: v2\nname: web\nversion: 1.0.0\n"),
		"crds/a.yaml":      []byte(aDefinition("as", `, annotations: {"helm.sh/hook": crd-install, "other": "1"}`) + "---\n" + aDefinition("new", "")),
		"crds/b.yaml":      []byte(aDefinition("bs", "") + "---\n# nothing\n"),
		"crds/more.yaml":   []byte(aDefinition("bs", "") + "---\n" + aDefinition("templates", "")),
		"crds/config.yaml": []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config}\n"),
	}
	chart, err := ReadFiles(files)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := chart.load()
	if err != nil {
		t.Fatal(err)
	}
	rendered := map[string]string{"web/templates/t.yaml": aDefinition("templates", "")}
	for all, want := range map[bool]string{false: "as bs", true: "as bs config new"} {
		text, err := s.definitions("web", loaded, all, rendered)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range strings.Fields("as bs new config templates") {
			n := strings.Count(text, "name: "+name)
			if wanted := strings.Contains(" "+want+" ", " "+name+" "); wanted && n != 1 || !wanted && n != 0 {
				t.Errorf("all: %v: %s is in the manifest %d times:\n%s", all, name, n, text)
			}
		}
		if strings.Contains(text, "crd-install") || !strings.Contains(text, "other:") {
			t.Errorf("a definition is a hook, which no manifest has:\n%s", text)
		}
	}
}
