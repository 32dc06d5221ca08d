package upstreamfiles

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/kube/render"
)

// ownObjects are add-ons of the catalogue whose objects are Sealift's own. Their definitions and charts are upstream's: other rows have those.
func ownObjects() []ownObject {
	return []ownObject{
		{name: "node-local-dns", patch: "addresses", config: "Corefile", variables: map[string]string{
			"NODE_LOCAL_DNS_ADDRESS": "169.254.20.10", "NODE_LOCAL_DNS_SERVICE": "10.96.0.10", "NODE_LOCAL_DNS_SERVE_STALE": "1h",
		}},
		{name: "volume-snapshots", patch: "replicas", variables: map[string]string{"VOLUME_SNAPSHOTS_REPLICAS": "2"}},
	}
}

type ownObject struct {
	name      string
	patch     string // a template NAME.tmpl.yaml
	config    string // a template that becomes NAME.base
	variables map[string]string
}

// TestAddOnObjectsAreAppliedAndRemoved applies them to an API server twice, and removes them.
func TestAddOnObjectsAreAppliedAndRemoved(t *testing.T) {
	short.Skip(t, "a kube-apiserver")
	for _, o := range ownObjects() {
		t.Run(o.name, func(t *testing.T) {
			objects, err := render.Build(o.folder(t))
			if err != nil {
				t.Fatal(err)
			}
			row{}.checkApplied(t, objects)
		})
	}
}

// folder has the kustomization that the hook of the add-on makes.
func (o ownObject) folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join("../../../addons", o.name, releases.Newest(o.name).Version, "yaml")
	files, err := os.ReadDir(source)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(source, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		name, content := file.Name(), string(text)
		switch {
		case name == o.config:
			name, content = name+".base", os.Expand(content, o.variable(t))
		case name == o.patch+".tmpl.yaml":
			name, content = o.patch+".yaml", os.Expand(content, o.variable(t))
		case name == "kustomization.yaml":
			content += "patches:\n- path: " + o.patch + ".yaml\n"
		case strings.Contains(content, "${"):
			t.Fatalf("%s has variables, and the test does not fill them in", name)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func (o ownObject) variable(t *testing.T) func(string) string {
	return func(name string) string {
		value, found := o.variables[name]
		if !found {
			t.Errorf("%s has the variable %s, and the test does not fill it in", o.name, name)
		}
		return value
	}
}

// TestKubeNetworkPoliciesAreAppliedAndRemoved has its objects and its pod.
func TestKubeNetworkPoliciesAreAppliedAndRemoved(t *testing.T) {
	short.Skip(t, "a kube-apiserver")
	objects := builtByHooks(t, hooksRun{name: "kube-network-policies"})
	row{}.checkApplied(t, objects)
	podsAreAdmitted(t, objects, 1)
}
