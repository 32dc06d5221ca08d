package builder_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog/references"
	"github.com/sealift/sealift/helm/engine"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/manifest"
)

const moduleDeployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: hello}
spec:
  template:
    spec:
      containers: [{name: main, image: "{{ .Values.helloWorld.image }}", args: ["--helper-image=registry.example.io/helper:5"]}]
`

// module writes an add-on that is a module of addon-operator. Its chart has no Chart.yaml.
func module(t *testing.T, more map[string]string) string {
	t.Helper()
	dir := addOn(t, "hello-world", "# nothing yet\n")
	files := map[string]string{
		"addon.yaml": "description: A module\n", "templates/deployment.yaml": moduleDeployment, ".helmignore": "*.txt\n",
		"values.yaml":    "helloWorld: {image: 'registry.example.io/web:1', sidecarImage: 'registry.example.io/sidecar:4'}\nhelloWorldEnabled: true\n",
		"hooks/start.sh": "#!/bin/bash\nkubectl run x --image=registry.example.io/tool:2\ncat > $KUBERNETES_PATCH_PATH <<E\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: 'registry.example.io/pod:3'}]}\nE\n",
		"enabled":        "#!/bin/sh\ntrue\n", "openapi/values.yaml": "type: object\nproperties: {image: {default: 'registry.example.io/schema:1'}}\n",
		"crds/doc.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: gears.example.org}\n",
	}
	maps.Copy(files, more)
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestManifestMustListModuleImages: the images of a module's chart must be in the Manifest, and are written there on request.
func TestManifestMustListModuleImages(t *testing.T) {
	b, err := builder.New(openCache(t), builder.Options{Charts: engine.Renderer{}})
	if err != nil {
		t.Fatal(err)
	}
	lint := func(dir string) string {
		t.Helper()
		hooks, err := references.Check(t.Context(), dir, b)
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(diag.Errors(hooks).Error(), dir+"/", "")
	}
	dir := module(t, nil)
	text := lint(dir)
	for _, want := range []string{
		"templates/deployment.yaml: error: Deployment addon-operator/hello, container main: image registry.example.io/web:1 is not in the Manifest",
		"templates/deployment.yaml: warning: ", "registry.example.io/helper:5 looks like an image",
		"values.yaml: warning: value helloWorld.sidecarImage: registry.example.io/sidecar:4 looks like an image",
		"hooks/start.sh:2:15: warning: option --image: registry.example.io/tool:2 looks like an image",
		"hooks/start.sh:4:1: warning: Pod p, container c: registry.example.io/pod:3 looks like an image",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lint does not say %s\n%s", want, text)
		}
	}
	if strings.Contains(text, "value helloWorld.image:") {
		t.Errorf("lint tells an image of a pod twice:\n%s", text)
	}
	if strings.Contains(text, "schema:1") || strings.Contains(text, "not YAML") {
		t.Errorf("lint takes templates and schemas for objects:\n%s", text)
	}
	missing, err := references.Missing(t.Context(), dir, b)
	if want := []string{"registry.example.io/web:1"}; err != nil || !slices.Equal(missing, want) {
		t.Fatalf("missing are %v, %v", missing, err)
	}
	if _, err := manifest.AddImages(filepath.Join(dir, manifest.FileName), missing); err != nil {
		t.Fatal(err)
	}
	if text := lint(dir); strings.Contains(text, "error") {
		t.Errorf("after the images are written:\n%s", text)
	}
	asks := module(t, map[string]string{"templates/x.yaml": "{{ .Values.other.image.tag }}\n"})
	if text := lint(asks); !strings.Contains(text, "templates: warning: the chart does not render with its default values") || !strings.Contains(text, "below helloWorld") {
		t.Errorf("a chart that needs a value:\n%s", text)
	}
}

// TestPackagesCarryModules: hooks keep their modes, and .helmignore is included.
func TestPackagesCarryModules(t *testing.T) {
	b, err := builder.New(openCache(t), builder.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := module(t, nil)
	if err := os.Symlink("start.sh", filepath.Join(dir, "hooks", "linked.sh")); err != nil {
		t.Fatal(err)
	}
	result := build(t, b, dir)
	archive, err := bundle.Open(result.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	for name, want := range map[string]bundle.FileMode{"hooks/start.sh": 0o755, "hooks/linked.sh": 0o755, "enabled": 0o755, ".helmignore": 0o644, "templates/deployment.yaml": 0o644, "values.yaml": 0o644} {
		if e, ok := archive.Entry(bundle.AddOnDir(result.Name, result.Version) + "/" + name); !ok || e.Mode != want {
			t.Errorf("%s has mode %o, %v", name, e.Mode, ok)
		}
	}
}
