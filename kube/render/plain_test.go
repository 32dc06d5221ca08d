package render

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/internal/testing/fixture"
)

// sameAsKustomize checks that a plain kustomization has the objects that kustomize itself renders.
func sameAsKustomize(t *testing.T, dir string) (plain bool) {
	t.Helper()
	got, plain := readPlain(dir)
	if !plain {
		return false
	}
	want, err := kustomize(dir)
	if err != nil {
		t.Fatalf("kustomize refuses what was read: %v", err)
	}
	contents := func(objs []*unstructured.Unstructured) (out []map[string]any) {
		for _, obj := range objs {
			out = append(out, obj.Object)
		}
		return out
	}
	if diff := cmp.Diff(contents(want), contents(got)); diff != "" {
		t.Fatalf("-kustomize +read:\n%s", diff)
	}
	return true
}

const plainObject = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

func TestPlainKustomizationsMatchKustomize(t *testing.T) {
	list := "resources: [a.yaml]\n"
	tests := []struct {
		name  string
		files map[string]string
		plain bool
	}{
		{"one file", map[string]string{"kustomization.yaml": list, "a.yaml": plainObject}, true},
		{"scalars of all kinds", map[string]string{"kustomization.yaml": list, "a.yaml": plainObject +
			"data: {a: yes, b: 'no', c: 1.10, d: 017, e: 0x1f, f: 1e3, g: ~, h: 2001-01-01, i: 12345678901234567890, j: .inf, k: |\n  two\n  lines\n}\n"}, false},
		{"words that mean something", map[string]string{"kustomization.yaml": list, "a.yaml": plainObject +
			"data: {a: yes, b: 'no', c: 1.10, d: 017, e: 0x1f, f: 1e3, g: ~, h: 2001-01-01, i: 1234567890123456789, j: true, k: 0o17, l: 1_000}\n"}, true},
		{"anchors, comments and empty documents", map[string]string{"kustomization.yaml": list, "a.yaml": "---\n# nothing\n---\n" + plainObject +
			"data: &d {x: '1'} # note\nother: *d\nmerged:\n  <<: *d\n  y: '2'\n---\n"}, true},
		{"lists of objects", map[string]string{"kustomization.yaml": list, "a.yaml": "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: x}\n" +
			"- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: y}\n"}, true},
		{"references that name no namespace", map[string]string{"kustomization.yaml": list, "a.yaml": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: s, namespace: n}\n---\n" +
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: s, namespace: n}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}\n" +
			"subjects: [{kind: ServiceAccount, name: s}]\n"}, true},
		{"kustomizations in folders", map[string]string{"kustomization.yaml": "resources: [b, a.yaml, c]\n", "a.yaml": plainObject,
			"b/kustomization.yml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [b.yaml]\n", "b/b.yaml": strings.Replace(plainObject, "name: a", "name: b", 1),
			"c/Kustomization": "bases: [../d]\n", "d/kustomization.yaml": "resources: [d.json]\n", "d/d.json": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"d"}}`}, true},
		{"anything beside resources", map[string]string{"kustomization.yaml": list + "namespace: n\n", "a.yaml": plainObject}, false},
		{"a folder with anything beside resources", map[string]string{"kustomization.yaml": "resources: [b]\n", "b/kustomization.yaml": list + "namePrefix: x-\n", "b/a.yaml": plainObject}, false},
		{"notes to kustomize", map[string]string{"kustomization.yaml": list,
			"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {config.kubernetes.io/local-config: 'true'}}\n"}, false},
		{"an object given twice", map[string]string{"kustomization.yaml": list, "a.yaml": plainObject + "---\n" + plainObject}, false},
		{"an object given twice, once with the default namespace", map[string]string{"kustomization.yaml": list,
			"a.yaml": plainObject + "---\n" + strings.Replace(plainObject, "name: a", "name: a, namespace: default", 1)}, false},
		{"a folder given twice", map[string]string{"kustomization.yaml": "resources: [b, ./b]\n", "b/kustomization.yaml": list, "b/a.yaml": plainObject}, false},
		{"folders in a circle", map[string]string{"kustomization.yaml": "resources: [b]\n", "b/kustomization.yaml": "resources: [..]\n"}, false},
		{"two kustomization files", map[string]string{"kustomization.yaml": list, "Kustomization": list, "a.yaml": plainObject}, false},
		{"a file outside", map[string]string{"kustomization.yaml": "resources: [b]\n", "b/kustomization.yaml": "resources: [../a.yaml]\n", "a.yaml": plainObject}, false},
		{"a component among resources", map[string]string{"kustomization.yaml": "resources: [b]\n",
			"b/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n" + list, "b/a.yaml": plainObject}, false},
		{"no objects", map[string]string{"kustomization.yaml": list, "a.yaml": "# nothing\n"}, false},
		{"what is not an object", map[string]string{"kustomization.yaml": list, "a.yaml": "a: b\n"}, false},
		{"a label that is not a string", map[string]string{"kustomization.yaml": list, "a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {x: 1}}\n"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := sameAsKustomize(t, fixture.Folder(t, tt.files)); got != tt.plain {
				t.Errorf("read without kustomize: %v, want %v", got, tt.plain)
			}
		})
	}
}

func FuzzPlain(f *testing.F) {
	f.Add(plainObject)
	f.Add(plainObject + "data: {a: yes, b: 017, c: 1e3}\n---\n" + strings.Replace(plainObject, "name: a", "name: 'b'", 1))
	f.Add("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: A, metadata: {name: x, annotations: {y: z}}}]\n")
	f.Add("apiVersion: v1\nkind: A\nmetadata: {name: &x a, labels: {b: *x}}\n")
	dir := fixture.Folder(f, map[string]string{"kustomization.yaml": "resources: [a.yaml]\n"}) // each process that fuzzes has one
	f.Fuzz(func(t *testing.T, content string) {
		if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		sameAsKustomize(t, dir)
	})
}
