package kube_test

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sealift/sealift/kube"
)

// TestOnlyOwnRefusesForeignObjects uses an object of each kind of owner. Neither Diff nor Apply touches any of them, and both name all owners.
func TestOnlyOwnRefusesForeignObjects(t *testing.T) {
	c := newCluster(t)
	c.create(configMapOf("by-client", "1"))
	c.create("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: by-helm\n  namespace: NS\n  annotations: {meta.helm.sh/release-name: shop, meta.helm.sh/release-namespace: apps}\ndata: {key: '1'}")
	c.create("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: by-controller\n  namespace: NS\n  ownerReferences: [{apiVersion: v1, kind: Shop, name: it, uid: '1', controller: true}]\ndata: {key: '1'}")
	force := true
	if _, err := c.resource("v1/configmaps", c.ns).Patch(t.Context(), "by-gitops", types.ApplyPatchType,
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"by-gitops"},"data":{"key":"1"}}`), metav1.PatchOptions{FieldManager: "gitops", Force: &force}); err != nil {
		t.Fatal(err)
	}
	other := kube.Set{Name: c.set.Name + "-other"}
	if _, err := c.Apply(t.Context(), other, c.objects(configMapOf("by-set", "1")), kube.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	holders := map[string]string{
		"by-client": "the field manager somebody", "by-helm": "the release apps/shop of Helm", "by-controller": "its controller Shop/it",
		"by-gitops": "the field manager gitops", "by-set": "set sealift/" + other.Name,
	}
	namespace := "apiVersion: v1\nkind: Namespace\nmetadata: {name: NS}"
	documents := []string{namespace}
	for name := range holders {
		documents = append(documents, configMapOf(name, "2"))
	}
	o := kube.ApplyOptions{OnlyOwn: true}
	_, diffErr := c.Diff(t.Context(), c.set, c.objects(documents...), o)
	_, applyErr := c.Apply(t.Context(), c.set, c.objects(documents...), o)
	for what, err := range map[string]error{"diff": diffErr, "apply": applyErr} {
		for name, holder := range holders {
			if err == nil || !strings.Contains(err.Error(), "/"+name+": it") || !strings.Contains(err.Error(), "belongs to "+holder+":") {
				t.Errorf("%s does not name %s of %s: %v", what, holder, name, err)
			}
		}
		if foreign := new(kube.ForeignError); !errors.As(err, &foreign) || strings.Contains(err.Error(), "Namespace/") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for name := range holders {
		if got := c.get("v1/configmaps", name); got.Object["data"].(map[string]any)["key"] != "1" || got.GetLabels()["applyset.kubernetes.io/part-of"] == c.set.ID() {
			t.Errorf("%s was changed: %v", name, got.Object)
		}
	}

	if _, err := c.Apply(t.Context(), c.set, c.objects(namespace, configMapOf("new", "1")), o); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Apply(t.Context(), c.set, c.objects(namespace, configMapOf("new", "2")), o); err != nil {
		t.Errorf("its own object: %v", err)
	}
}
