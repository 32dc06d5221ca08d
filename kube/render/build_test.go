package render_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/kube/render"
)

const deploymentYAML = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: example.com/web:1, env: [{name: A, value: "1"}]}
      - {name: side, image: example.com/side:1}
`

func TestBuildRendersBasesPatchesAndGenerators(t *testing.T) {
	dir := fixture.Folder(t, map[string]string{
		"base/kustomization.yaml": "resources: [web.yaml]\nconfigMapGenerator: [{name: settings, files: [k=settings.txt]}]\n",
		"base/web.yaml":           deploymentYAML,
		"base/settings.txt":       "on",
		"top/kustomization.yaml": "namespace: shop\nresources: [../base, thing.yaml]\n" +
			"patchesStrategicMerge: [patch.yaml]\nimages: [{name: example.com/side, newTag: '2'}]\n",
		"top/thing.yaml": "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\n",
		"top/patch.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n" +
			"spec: {template: {spec: {containers: [{name: web, env: [{name: B, value: '2'}]}]}}}\n",
	})
	objs, err := render.Build(filepath.Join(dir, "top"))
	if err != nil {
		t.Fatal(err)
	}
	byKind := map[string]*unstructured.Unstructured{}
	for _, obj := range objs {
		byKind[obj.GetKind()] = obj
		if obj.GetNamespace() != "shop" {
			t.Errorf("%s is not in the namespace of the kustomization", obj.GetName())
		}
	}
	if name := byKind["ConfigMap"].GetName(); !strings.HasPrefix(name, "settings-") {
		t.Errorf("generated ConfigMap is called %s, without a hash", name)
	}
	containers, _, _ := unstructured.NestedSlice(byKind["Deployment"].Object, "spec", "template", "spec", "containers")
	want := []any{
		map[string]any{"name": "web", "image": "example.com/web:1", "env": []any{
			map[string]any{"name": "B", "value": "2"}, map[string]any{"name": "A", "value": "1"}}},
		map[string]any{"name": "side", "image": "example.com/side:2"},
	}
	if diff := cmp.Diff(want, containers); diff != "" {
		t.Errorf("a strategic merge patch merges containers by name (-want +got):\n%s", diff)
	}
}

func TestBuildRefuses(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"a directory without a kustomization", map[string]string{"a.yaml": configMap}, "has no kustomization.yaml"},
		{"a resource from a URL", map[string]string{"kustomization.yaml": "resources: ['https://example.com/a.yaml']"}, "nothing is fetched"},
		{"a resource from a git host", map[string]string{"kustomization.yaml": "resources: ['github.com/example/repo//dir?ref=v1']"}, "nothing is fetched"},
		{"a URL in a base", map[string]string{"kustomization.yaml": "resources: [b]", "b/kustomization.yaml": "components: ['https://example.com/c']"}, "nothing is fetched"},
		{"a patch from a URL", map[string]string{"kustomization.yaml": "patches: [{path: 'https://example.com/p.yaml'}]"}, "nothing is fetched"},
		{"a generator file from a URL", map[string]string{"kustomization.yaml": "configMapGenerator: [{name: a, files: ['k=https://example.com/p']}]"}, "nothing is fetched"},
		{"a file that is missing", map[string]string{"kustomization.yaml": "resources: [gone.yaml]"}, `"gone.yaml" is not on disk`},
		{"a file outside the kustomization", map[string]string{"kustomization.yaml": "resources: [../../../../../../../../etc/hostname]"}, "build kustomization"},
		{"a Helm chart", map[string]string{"kustomization.yaml": "helmCharts: [{name: c}]"}, "Helm charts are not rendered"},
		{"an exec plugin", map[string]string{"kustomization.yaml": "generators: [g.yaml]",
			"g.yaml": "apiVersion: x/v1\nkind: G\nmetadata: {name: g, annotations: {config.kubernetes.io/function: 'exec: {path: /bin/true}'}}"}, "build kustomization"},
		{"a kustomization with a field that does not exist", map[string]string{"kustomization.yaml": "resource: [a.yaml]"}, "resource"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := render.Build(fixture.Folder(t, tt.files))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v does not say %q", err, tt.want)
			}
		})
	}
}

func TestBuildInStaysBelowItsFolder(t *testing.T) {
	dir := fixture.Folder(t, map[string]string{
		"home/kustomization.yaml":           "resources: [a.yaml]\n",
		"home/a.yaml":                       configMap,
		"came/base/kustomization.yaml":      "resources: [a.yaml]\n",
		"came/base/a.yaml":                  configMap,
		"came/beside/kustomization.yaml":    "resources: [../base]\n",
		"came/out/kustomization.yaml":       "resources: [../../home]\n",
		"came/parts/kustomization.yaml":     "components: [../../home]\n",
		"came/plug/kustomization.yaml":      "transformers: ['a: b/../../../home']\n",
		"came/like-text/kustomization.yaml": "resources: ['a: b/../../../home']\n",
		"came/lines/kustomization.yaml":     "resources: [\"a\\nb/../../../home\"]\n",
		"came/link/kustomization.yaml":      "resources: [on/../../home, away]\n",
		"came/link/on/x":                    "",
	})
	if err := os.Symlink(filepath.Join(dir, "home"), filepath.Join(dir, "came/link/away")); err != nil {
		t.Fatal(err)
	}
	if objs, err := render.BuildIn(filepath.Join(dir, "came"), "beside"); err != nil || len(objs) != 1 {
		t.Errorf("a folder beside: %d objects, %v", len(objs), err)
	}
	for _, name := range []string{"out", "parts", "plug", "like-text", "lines", "link", "../home"} {
		_, err := render.BuildIn(filepath.Join(dir, "came"), name)
		if err == nil || !strings.Contains(err.Error(), "is outside of what its kustomization came with") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBuildTakesTextForTransformers(t *testing.T) {
	dir := fixture.Folder(t, map[string]string{
		"a.yaml": configMap,
		"kustomization.yaml": "resources: [a.yaml]\ntransformers:\n- |-\n  apiVersion: builtin\n  kind: LabelTransformer\n  metadata: {name: l}\n" +
			"  labels: {tier: front}\n  fieldSpecs: [{path: metadata/labels, create: true}]\n",
	})
	objs, err := render.Build(dir)
	if err != nil || len(objs) != 1 || objs[0].GetLabels()["tier"] != "front" {
		t.Errorf("%v, %v", objs, err)
	}
}
