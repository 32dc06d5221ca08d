package kube_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/kube"
)

func TestDiffPredictsApplyAndChangesNothing(t *testing.T) {
	c := newCluster(t)
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: NS}\nstringData: {password: PASS}"
	c.apply(kube.ApplyOptions{}, configMapOf("same", "1"), configMapOf("leaves", "1"), webDeployment, strings.Replace(secret, "PASS", "old-secret", 1))
	docs := []string{
		configMapOf("same", "1"),
		strings.Replace(webDeployment, "web:1", "web:2", 1),
		strings.Replace(secret, "PASS", "new-secret", 1),
		configMapOf("new", "1"),
		widgetDefinition, "apiVersion: NS.example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: NS}",
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: NS-new}", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: NS-new}",
	}
	result, err := c.Diff(t.Context(), c.set, c.objects(docs...), kube.ApplyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"ConfigMap/same unchanged", "Deployment/web configured", "Secret/s configured", "ConfigMap/new created",
		"CustomResourceDefinition/widgets." + c.ns + ".example.com created", "Widget/w created",
		"Namespace/" + c.ns + "-new created", "ConfigMap/a created", "ConfigMap/leaves pruned"}
	if diff := cmp.Diff(want, actions(result)); diff != "" {
		t.Error(diff)
	}
	changes := []kube.Change{{Field: ".spec.template.spec.containers[0].image", Live: "example.com/web:1", Wanted: "example.com/web:2"}}
	if diff := cmp.Diff(changes, result.Entries[1].Changes); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]kube.Change{{Field: ".data.password", Live: "(hidden)", Wanted: "(hidden)"}}, result.Entries[2].Changes); diff != "" {
		t.Errorf("the values of a Secret are not shown (-want +got):\n%s", diff)
	}
	if c.get("v1/configmaps", "new") != nil || c.get("v1/configmaps", "leaves") == nil {
		t.Error("the cluster was changed")
	}
}
