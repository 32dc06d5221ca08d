package render_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/kube/render"
)

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

func TestDecode(t *testing.T) {
	tests := []struct {
		name, in string
		want     []string
	}{
		{"nothing at all", "", nil},
		{"only separators and comments", "---\n# nothing\n---\n", nil},
		{"one document", configMap, []string{"ConfigMap/a"}},
		{"documents with empty ones between", "---\n" + configMap + "---\n---\n" + strings.Replace(configMap, "name: a", "name: b, namespace: ns", 1),
			[]string{"ConfigMap/a", "ConfigMap/ns/b"}},
		{"JSON", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`, []string{"Secret/s"}},
		{"a List is taken apart", `{"apiVersion":"v1","kind":"List","items":[
			{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}},
			{"apiVersion":"v1","kind":"SecretList","items":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"t"}}]}]}`,
			[]string{"Secret/s", "Secret/t"}},
		{"items of a typed list have its kind", "apiVersion: v1\nkind: SecretList\nmetadata: {}\nitems: [{metadata: {name: s}}, {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}]",
			[]string{"Secret/s", "ConfigMap/c"}},
		{"a List of nothing", "apiVersion: v1\nkind: List\nitems:\n", nil},
		{"Windows line ends", strings.ReplaceAll("---\n"+configMap, "\n", "\r\n"), []string{"ConfigMap/a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			objs, err := render.Decode(strings.NewReader(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, obj := range objs {
				got = append(got, strings.ReplaceAll(strings.Join([]string{obj.GetKind(), obj.GetNamespace(), obj.GetName()}, "/"), "//", "/"))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDecodeNamesInvalidDocument(t *testing.T) {
	tests := []struct{ name, doc, want string }{
		{"no YAML", "a: [", "document 2"},
		{"no kind", "apiVersion: v1\nmetadata: {name: a}", "kind is missing"},
		{"no apiVersion", "kind: ConfigMap\nmetadata: {name: a}", "apiVersion is missing"},
		{"a name that YAML takes for a number", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 1.10}", "metadata.name is a float64, not a string"},
		{"a namespace that YAML takes for a boolean", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: no}", "metadata.namespace is a bool"},
		{"no name", "apiVersion: v1\nkind: ConfigMap\nmetadata: {}", "metadata.name is missing"},
		{"a name that the server makes", "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}", "generateName a- cannot be applied"},
		{"an item of a List without a kind", "apiVersion: v1\nkind: List\nitems: [{metadata: {name: s}}]", "item 1"},
		{"metadata of the wrong type", "apiVersion: v1\nkind: ConfigMap\nmetadata: a", "metadata is missing"},
		{"a key given twice", configMap + "kind: Secret\n", "kind"},
		{"a short text that stands for a long one", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: &x " + strings.Repeat("x", 1<<20) + ", b: [" + strings.Repeat("*x, ", 5) + "]}\n",
			"line 4: the aliases up to here add more than 50000 values or 4 MiB"},
		{"a list instead of an object", "- a\n- b", "document 2"},
		{"a List with an item that is none", "apiVersion: v1\nkind: List\nitems: [1]", "item 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := render.Decode(strings.NewReader(configMap + "---\n" + tt.doc))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range []string{"document 2", tt.want} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

// FuzzDecode checks what everything after Decode relies on: a decoded object has a name and can be written again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{configMap, "---\n---\n", `{"apiVersion":"v1","kind":"List","items":[]}`, "a: &a [*a]", "? [a]\n: b",
		"apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(configMap, "\n", "\n  "), "apiVersion: 1\nkind: {}\nmetadata: {name: 3}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		objs, err := render.Decode(strings.NewReader(in))
		if err != nil {
			return
		}
		for _, obj := range objs {
			if obj.GetKind() == "" || obj.GetAPIVersion() == "" || obj.GetName() == "" {
				t.Errorf("object without a name: %v", obj.Object)
			}
			if _, err := obj.MarshalJSON(); err != nil {
				t.Errorf("cannot be written again: %v", err)
			}
		}
	})
}

// TestAppliedManifestsAreReadLikeAPIServer has documents that Decode refuses and Helm applies.
func TestAppliedManifestsAreReadLikeAPIServer(t *testing.T) {
	const manifest = `apiVersion: v1
kind: ConfigMap
metadata: {name: first, name: last}
---
apiVersion: v1
kind: Pod
metadata: {generateName: some-}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Secret, metadata: {name: in-a-list}}
- {apiVersion: batch/v1, kind: Job, metadata: {generateName: more-}}
`
	if _, err := render.Decode(strings.NewReader(manifest)); err == nil {
		t.Error("Decode takes a key that is given twice")
	}
	objects, err := render.DecodeApplied(strings.NewReader(manifest))
	var names []string
	for _, o := range objects {
		names = append(names, o.GetKind()+"/"+o.GetName())
	}
	if err != nil || strings.Join(names, " ") != "ConfigMap/last Secret/in-a-list" {
		t.Errorf("%v, %v", names, err)
	}
	if objects, err := render.DecodeRendered(strings.NewReader(manifest)); err != nil || len(objects) < 4 {
		t.Errorf("objects without a name are not kept: %v, %v", objects, err)
	}
	if _, err := render.DecodeApplied(strings.NewReader("{")); err == nil {
		t.Error("a document that cannot be read is not an error")
	}
}
