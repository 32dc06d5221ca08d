package kube_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/render"
)

func labelledMap(name, labels string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", namespace: NS, labels: {" + labels + "}}\n"
}

// applyAs applies a document server-side under the name of a field manager, as another tool would.
func (c *cluster) applyAs(manager, doc string) {
	c.t.Helper()
	obj := c.objects(doc)[0]
	_, err := c.resource("v1/configmaps", c.ns).Apply(c.t.Context(), obj.GetName(), obj, metav1.ApplyOptions{FieldManager: manager, Force: true})
	if err != nil {
		c.t.Fatal(err)
	}
}

func TestPruneMatchingTakesMembersOnly(t *testing.T) {
	c := newCluster(t)
	cfg := shared.Config(t)
	engine := kube.New(connect(t, cfg), kube.Options{Manager: "kops", TakeOver: []string{kube.Manager}})
	own := map[string]string{"addon": "a"}
	docs := c.objects(labelledMap("stays", "addon: a"), labelledMap("left", "app: x"))
	if _, err := engine.Apply(t.Context(), c.set, docs, kube.ApplyOptions{NoPrune: true}); err != nil {
		t.Fatal(err)
	}
	c.applyAs("kops", labelledMap("from-kops", "app: x"))
	c.applyAs("kops", labelledMap("from-kops-elsewhere", "app: z"))
	c.applyAs("kops", labelledMap("labelled", "app: x, addon: a"))
	c.applyAs("kops", labelledMap("of-another-add-on", "app: x, addon: b"))
	c.applyAs("gitops", labelledMap("also-applied", "app: x, addon: a"))
	c.create(labelledMap("by-hand", "app: x"))
	c.create(labelledMap("by-hand-unlabelled", ""))
	other := kube.Set{Name: c.set.Name + "-other"}
	if _, err := engine.Apply(t.Context(), other, c.objects(labelledMap("of-another-set", "app: x")), kube.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	match := kube.Match{Kind: "ConfigMap", Namespaces: []string{c.ns}, LabelSelector: "app=x"}
	result, err := engine.PruneMatching(t.Context(), c.set, []kube.Match{match, match}, kube.MatchOptions{Own: own, Keep: docs[:1]})
	if err != nil {
		t.Fatal(err)
	}
	got := actions(result)
	slices.Sort(got)
	want := []string{"ConfigMap/also-applied kept", "ConfigMap/by-hand kept", "ConfigMap/from-kops pruned", "ConfigMap/labelled pruned",
		"ConfigMap/left pruned", "ConfigMap/of-another-add-on kept", "ConfigMap/of-another-set kept"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	t.Run("a rule without a selector takes what the set or its labels say", func(t *testing.T) {
		match := kube.Match{Kind: "ConfigMap", Namespaces: []string{c.ns}}
		if _, err := engine.Apply(t.Context(), c.set, docs, kube.ApplyOptions{NoPrune: true}); err != nil {
			t.Fatal(err)
		}
		result, err := engine.PruneMatching(t.Context(), c.set, []kube.Match{match}, kube.MatchOptions{Own: own, Keep: docs[:1]})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"ConfigMap/also-applied kept", "ConfigMap/left pruned"}, actions(result)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a kind that is not served is an error", func(t *testing.T) {
		_, err := engine.PruneMatching(t.Context(), c.set, []kube.Match{{Group: "example.com", Kind: "Widget"}}, kube.MatchOptions{Own: own})
		if err == nil || !strings.Contains(err.Error(), "list Widget.example.com to prune") {
			t.Errorf("%v", err)
		}
	})
}

// TestPruneMatchingTakesLeftoversOfKops has objects from a cluster that kOps has run for long: kOps up to 1.21 called kubectl apply, and charts
// set the label managed-by. Objects of a person, a Helm release, a controller or another add-on stay.
func TestPruneMatchingTakesLeftoversOfKops(t *testing.T) {
	c := newCluster(t)
	cfg := shared.Config(t)
	const managedBy, kubectl = "app.kubernetes.io/managed-by", "kubectl-client-side-apply"
	own := map[string]string{"addon": "a", managedBy: "kops"}
	create := func(manager, annotations, doc string) {
		t.Helper()
		obj := c.objects(strings.Replace(doc, "labels:", "annotations: {"+annotations+"}, labels:", 1))[0]
		if _, err := c.resource("v1/configmaps", c.ns).Create(t.Context(), obj, metav1.CreateOptions{FieldManager: manager}); err != nil {
			t.Fatal(err)
		}
	}
	const applied = "kubectl.kubernetes.io/last-applied-configuration: '{}'"
	create(kubectl, applied, labelledMap("kubectl", "app: x"))
	create(kubectl, "", labelledMap("kubectl-without-annotation", "app: x"))
	create("kubectl", applied, labelledMap("kubectl-1.17", "app: x"))
	create(kubectl, applied, labelledMap("kubectl-chart", "app: x, "+managedBy+": Helm"))
	create(kubectl, applied, labelledMap("kubectl-of-another-add-on", "app: x, addon: b"))
	create(kubectl, "meta.helm.sh/release-name: web, meta.helm.sh/release-namespace: shop", labelledMap("helm-release", "app: x, "+managedBy+": Helm"))
	create("kubectl-create", "", labelledMap("person", "app: x"))
	create("kubectl-edit", "", labelledMap("person-edit", "app: x"))
	c.applyAs("kops", labelledMap("kops-chart", "app: x, "+managedBy+": Helm"))
	c.applyAs("kops", labelledMap("kops-chart-named", "app: x, addon: a, "+managedBy+": Helm"))
	c.applyAs("kops", labelledMap("kops-chart-of-another-add-on", "app: x, addon: b, "+managedBy+": Helm"))
	match := kube.Match{Kind: "ConfigMap", Namespaces: []string{c.ns}, LabelSelector: "app=x"}
	options := kube.MatchOptions{Own: own, Common: []string{managedBy}}

	engine := kube.New(connect(t, cfg), kube.Options{Manager: "kops", TakeOver: []string{kube.Manager, kubectl}})
	result, err := engine.PruneMatching(t.Context(), c.set, []kube.Match{{Kind: "ConfigMap", Namespaces: []string{c.ns}}}, options)
	if err != nil || len(result.Entries) > 0 {
		t.Errorf("without a selector: %v %v", actions(result), err)
	}
	if result, err = engine.PruneMatching(t.Context(), c.set, []kube.Match{match}, options); err != nil {
		t.Fatal(err)
	}
	got := actions(result)
	slices.Sort(got)
	want := []string{"ConfigMap/helm-release kept", "ConfigMap/kops-chart pruned", "ConfigMap/kops-chart-named pruned", "ConfigMap/kops-chart-of-another-add-on kept",
		"ConfigMap/kubectl pruned", "ConfigMap/kubectl-1.17 pruned", "ConfigMap/kubectl-chart pruned", "ConfigMap/kubectl-of-another-add-on kept",
		"ConfigMap/kubectl-without-annotation pruned", "ConfigMap/person kept", "ConfigMap/person-edit kept"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestServerRecordsOtherManager(t *testing.T) {
	c := newCluster(t)
	engine := kube.New(connect(t, shared.Config(t)), kube.Options{Manager: "kops", TakeOver: []string{kube.Manager, "kubectl-edit"}})
	c.apply(kube.ApplyOptions{}, labelledMap("a", "old: '1'"))
	if _, err := engine.Apply(t.Context(), c.set, c.objects(labelledMap("a", "new: '2'")), kube.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	live := c.get("v1/configmaps", "a")
	if live.GetLabels()["old"] != "" || live.GetLabels()["new"] != "2" {
		t.Errorf("labels %v", live.GetLabels())
	}
	for _, entry := range live.GetManagedFields() {
		if entry.Manager != "kops" {
			t.Errorf("fields are still managed by %s", entry.Manager)
		}
	}
}

func TestUnplacedNamesObjectsWithoutNamespace(t *testing.T) {
	c := newCluster(t)
	definition := func(kind, scope string) string {
		return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " + strings.ToLower(kind) + "s.unplaced.io}\n" +
			"spec: {group: unplaced.io, scope: " + scope + ", names: {kind: " + kind + "}}\n"
	}
	objs := c.objects("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}", labelledMap("b", ""),
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: c}", definition("Near", "Namespaced"), definition("Far", "Cluster"),
		"apiVersion: unplaced.io/v1\nkind: Near\nmetadata: {name: d}", "apiVersion: unplaced.io/v1\nkind: Far\nmetadata: {name: e}",
		"apiVersion: unheard.io/v1\nkind: Of\nmetadata: {name: f}")
	found, err := c.Unplaced(t.Context(), objs)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, ref := range found {
		names = append(names, ref.String())
	}
	if diff := cmp.Diff([]string{"ConfigMap/a", "Near/d"}, names); diff != "" {
		t.Error(diff)
	}
}

// TestKeptWithSuperfluousNamespace: a cluster drops the namespace of an object of a kind without namespaces.
func TestKeptWithSuperfluousNamespace(t *testing.T) {
	set := kube.Set{Name: "a", Namespace: "default"}
	api := &fakeAPI{}
	api.serve("/apis/example.org", `{"kind":"APIGroup","apiVersion":"v1","name":"example.org","preferredVersion":{"groupVersion":"example.org/v1","version":"v1"}}`)
	api.serve(thingsPath, thingsList)
	item := func(name string) string {
		return `{"metadata":{"name":"` + name + `","uid":"` + name + `","labels":{"applyset.kubernetes.io/part-of":"` + set.ID() + `"}}}`
	}
	api.serve(thingsPath+"/things", `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[`+item("stays")+","+item("left")+`]}`)
	secret := `{"metadata":{"name":"a","namespace":"default","labels":{"applyset.kubernetes.io/id":"` + set.ID() +
		`"},"managedFields":[{"manager":"sealift","operation":"Apply"}]}}`
	api.serve("/api/v1/secrets", `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[`+secret+`]}`)
	objs, err := render.Decode(strings.NewReader("apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: stays, namespace: kube-system}\n"))
	if err != nil {
		t.Fatal(err)
	}
	engine := kube.New(api.connect(t), kube.Options{})
	holders, err := engine.Holders(t.Context(), objs)
	if ref := (kube.Ref{Group: "example.org", Kind: "Thing", Namespace: "kube-system", Name: "stays"}); err != nil || len(holders) != 1 || holders[ref] != set {
		t.Errorf("held: %v, %v", holders, err)
	}
	_, err = engine.PruneMatching(t.Context(), set, []kube.Match{{Group: "example.org", Kind: "Thing"}}, kube.MatchOptions{Keep: objs})
	if want := []string{thingsPath + "/things/left"}; err != nil || !slices.Equal(api.deleted, want) {
		t.Errorf("deleted %v, want %v; %v", api.deleted, want, err)
	}
}
