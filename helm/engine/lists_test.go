package engine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/helm/engine"
	"github.com/sealift/sealift/internal/testing/fixture"
	kuberender "github.com/sealift/sealift/kube/render"
)

// TestListsAreSplit takes lists as Helm does. kube-prometheus-stack has one without metadata (zarf-dev/zarf#5375).
func TestListsAreSplit(t *testing.T) {
	crd := "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: alls.example.org}, spec: {group: example.org, scope: Cluster, names: {kind: All}}}"
	for name, row := range map[string]struct {
		template string
		want     []string // in addition to the chart's own objects
	}{
		"a List without metadata": {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n- {apiVersion: v1, kind: Secret, metadata: {name: b, namespace: other}}\n",
			[]string{"ConfigMap greetings/a", "Secret other/b"}},
		"a List with metadata": {"apiVersion: v1\nkind: List\nmetadata: {name: l, namespace: nobody}\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]\n",
			[]string{"ConfigMap greetings/a"}},
		"items of the whole cluster": {"apiVersion: v1\nkind: List\nitems: [{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: r}}]\n",
			[]string{"ClusterRole r"}},
		"a typed list": {"apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleList\nitems: [{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r}}]\n",
			[]string{"Role greetings/r"}},
		"items that leave out their kind": {"apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBindingList\nitems: [{metadata: {name: r}}]\n",
			[]string{"RoleBinding greetings/r"}},
		"a List in a List": {"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMapList, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]}]\n",
			[]string{"ConfigMap greetings/a"}},
		"a List of nothing":  {"apiVersion: v1\nkind: List\nitems:\n", nil},
		"an empty List":      {"apiVersion: v1\nkind: List\nitems: []\n", nil},
		"a List in JSON":     {`{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}]}`, []string{"ConfigMap greetings/a"}},
		"a definition in it": {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: example.org/v1, kind: All, metadata: {name: one}}\n- " + crd + "\n", []string{"All one", "CustomResourceDefinition alls.example.org"}},
		"a hook in it, which is none": {"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {helm.sh/hook: crd-install}}}]\n",
			[]string{"ConfigMap greetings/a"}},
		"anchors across items": {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: &l {x: y}}}\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: b, labels: {<<: *l, x: z}}\n",
			[]string{"ConfigMap greetings/a", "ConfigMap greetings/b"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := render(t, "replicas: 1\n", map[string]string{"templates/list.yaml": row.template})
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, o := range got.Objects {
				if o.Template == "hello/templates/list.yaml" {
					names = append(names, o.String())
				}
			}
			if !slices.Equal(names, row.want) {
				t.Errorf("got %v, want %v\n%s", names, row.want, got.Document())
			}
			decoded(t, got)
		})
	}
}

// decoded checks that a node reads the rendered text as the same objects.
func decoded(t *testing.T, r helm.Rendered) {
	t.Helper()
	objects, err := kuberender.Decode(strings.NewReader(string(r.Document())))
	if err != nil || len(objects) != len(r.Objects) {
		t.Fatalf("a node reads %d of %d objects, %v", len(objects), len(r.Objects), err)
	}
	for i, o := range objects {
		if o.GetName() != r.Objects[i].Name || o.GetNamespace() != r.Objects[i].Namespace || o.GetKind() != r.Objects[i].Kind {
			t.Errorf("a node reads %s %s/%s, rendered was %s", o.GetKind(), o.GetNamespace(), o.GetName(), r.Objects[i])
		}
	}
}

func TestHookListIsSplit(t *testing.T) {
	list := func(event string) string {
		return "apiVersion: v1\nkind: List\nmetadata: {annotations: {helm.sh/hook: " + event + "}}\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: " + event + "}}]\n"
	}
	got, err := render(t, "", map[string]string{"templates/a.yaml": list("post-install"), "templates/b.yaml": list("pre-delete")})
	if err != nil {
		t.Fatal(err)
	}
	last := got.Objects[len(got.Objects)-1]
	if last.String() != "ConfigMap greetings/post-install" || !slices.Equal(last.Hooks, []string{"post-install"}) {
		t.Errorf("the last object is %s of %v", last, last.Hooks)
	}
	if len(got.Skipped) != 1 || got.Skipped[0].String() != "ConfigMap greetings/pre-delete" {
		t.Errorf("skipped are %v", got.Skipped)
	}
}

func TestCRDListIsSplit(t *testing.T) {
	crd := func(kind string) string {
		return "- {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: " + kind + "}, spec: {group: example.org, scope: Cluster, names: {kind: " + kind + "}}}\n"
	}
	got, err := render(t, "", map[string]string{
		"crds/all.yaml":      "apiVersion: v1\nkind: List\nitems:\n" + crd("A") + crd("B"),
		"crds/again.yaml":    strings.TrimPrefix(crd("A"), "- "), // as a dependency of this chart may have it
		"templates/one.yaml": "apiVersion: example.org/v1\nkind: B\nmetadata: {name: one}\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range got.Objects[:3] {
		names = append(names, o.String())
	}
	if want := []string{"CustomResourceDefinition A", "CustomResourceDefinition B", "Namespace greetings"}; !slices.Equal(names, want) || got.Objects[len(got.Objects)-1].String() != "B one" {
		t.Errorf("got %v and %s", names, got.Objects[len(got.Objects)-1])
	}
}

// TestChartThatNodesRefuseIsRefusedAtBuild covers objects that Helm accepts, or leaves to the API server, but that no node can
// apply.
func TestChartThatNodesRefuseIsRefusedAtBuild(t *testing.T) {
	a := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	for name, row := range map[string]struct {
		files map[string]string
		want  string
	}{
		"an object twice": {map[string]string{"templates/a.yaml": a, "templates/b.yaml": a},
			"hello/templates/b.yaml: ConfigMap greetings/a is also in hello/templates/a.yaml"},
		"an object twice, once with its namespace": {map[string]string{"templates/a.yaml": a, "templates/b.yaml": strings.Replace(a, "name: a", "name: a, namespace: greetings", 1)},
			"is also in hello/templates/a.yaml"},
		"an object twice in another version": {map[string]string{"templates/a.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\n---\napiVersion: batch/v1beta1\nkind: Job\nmetadata: {name: j}\n"},
			"Job greetings/j is also in"},
		"an object twice in a List":       {map[string]string{"templates/a.yaml": a + "---\napiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]\n"}, "is also in"},
		"a hook that is also an object":   {map[string]string{"templates/a.yaml": a + "---\n" + strings.Replace(a, "name: a", "name: a, annotations: {helm.sh/hook: pre-install}", 1)}, "is also in"},
		"a name that the server makes":    {map[string]string{"templates/a.yaml": strings.Replace(a, "name: a", "generateName: a-", 1)}, "ConfigMap has generateName a- and no name"},
		"no name":                         {map[string]string{"templates/a.yaml": strings.Replace(a, "name: a", "labels: {}", 1)}, "ConfigMap has no name"},
		"a name that is null":             {map[string]string{"templates/a.yaml": strings.Replace(a, "name: a", "name: ~", 1)}, "ConfigMap has no name"},
		"a name that is a number":         {map[string]string{"templates/a.yaml": strings.Replace(a, "name: a", "name: 1.10", 1)}, "metadata.name is a float64"},
		"a key twice":                     {map[string]string{"templates/a.yaml": a + "data:\n  x: one\n  x: two\n"}, `mapping key "x" already defined`},
		"a key twice in a List":           {map[string]string{"templates/a.yaml": "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a, name: b}\n"}, `mapping key "name" already defined`},
		"an item that is not an object":   {map[string]string{"templates/a.yaml": "apiVersion: v1\nkind: List\nitems: [1]\n"}, "item 1 of a List is not an object"},
		"an item of a List without kind":  {map[string]string{"templates/a.yaml": "apiVersion: v1\nkind: List\nitems: [{metadata: {name: a}}]\n"}, "an object has no kind"},
		"an item of a List without names": {map[string]string{"templates/a.yaml": "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap}]\n"}, "ConfigMap has no metadata"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := render(t, "", row.files); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}

func TestNamespaceMayLookLikeAnotherType(t *testing.T) {
	for _, namespace := range []string{"y", "on", "1234", "1e3", "null", "plain"} {
		got, err := engine.Renderer{}.Render(t.Context(), fixture.ChartArchive(t, "hello", files(nil)), helm.Release{Name: "hello", Namespace: namespace, Values: []byte("replicas: 1\n")})
		if err != nil {
			t.Errorf("%s: %v", namespace, err)
			continue
		}
		decoded(t, got)
	}
}

func TestTextWithHookAnnotationIsNotAHook(t *testing.T) {
	_, err := render(t, "", map[string]string{"templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  manifest: |\n    metadata:\n      annotations:\n        helm.sh/hook: crd-install\n"})
	if err != nil {
		t.Error(err)
	}
}
