package kube_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/kube"
)

func TestReleasedMembersStay(t *testing.T) {
	c := newCluster(t)
	c.apply(kube.ApplyOptions{}, configMapOf("stays", "1"), configMapOf("goes", "1"))
	released, err := c.Release(t.Context(), c.set, func(ref kube.Ref) bool { return ref.Name == "stays" })
	if diff := cmp.Diff([]string{"ConfigMap/stays kept"}, actions(released)); diff != "" || err != nil {
		t.Fatal(diff, err)
	}
	deleted, err := c.Delete(t.Context(), c.set, kube.DeleteOptions{})
	if diff := cmp.Diff([]string{"ConfigMap/goes pruned"}, actions(deleted)); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if c.get("v1/configmaps", "stays") == nil {
		t.Error("the released object is gone")
	}
}

func TestCreateOnlyLeavesExistingObjects(t *testing.T) {
	c := newCluster(t)
	c.create(configMapOf("theirs", "1"))
	o := kube.ApplyOptions{CreateOnly: true}
	got := actions(c.apply(o, configMapOf("theirs", "2"), configMapOf("ours", "1")))
	if diff := cmp.Diff([]string{"ConfigMap/theirs unchanged", "ConfigMap/ours created"}, got); diff != "" {
		t.Error(diff)
	}
	got = actions(c.apply(o, configMapOf("theirs", "2"), configMapOf("ours", "2")))
	if diff := cmp.Diff([]string{"ConfigMap/theirs unchanged", "ConfigMap/ours unchanged"}, got); diff != "" {
		t.Error(diff)
	}
	deleted, err := c.Delete(t.Context(), c.set, kube.DeleteOptions{})
	if diff := cmp.Diff([]string{"ConfigMap/ours pruned"}, actions(deleted)); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestSharedObjectsAreDeletedOnRequest(t *testing.T) {
	c := newCluster(t)
	c.apply(kube.ApplyOptions{}, configMapOf("both", "1"))
	_, err := c.resource("v1/configmaps", c.ns).Apply(t.Context(), "both", c.objects(configMapOf("both", "1"))[0], metav1.ApplyOptions{FieldManager: "other"})
	if err != nil {
		t.Fatal(err)
	}
	deleted, err := c.Delete(t.Context(), c.set, kube.DeleteOptions{Shared: true})
	if diff := cmp.Diff([]string{"ConfigMap/both pruned"}, actions(deleted)); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// webhookOf is a webhook that is never asked.
func webhookOf(name string) string {
	return `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: NS-` + name + `}
webhooks:
- name: never.example.org
  admissionReviewVersions: [v1]
  sideEffects: None
  rules: [{apiGroups: [never.example.org], apiVersions: [v1], operations: [CREATE], resources: [things]}]
  clientConfig: {service: {name: none, namespace: none, path: /never}}
`
}

// TestAddedFieldsEndWithTheirObject uses a controller that applies the CA of a webhook and nothing else, and a program that applies the same
// webhook as the set.
func TestAddedFieldsEndWithTheirObject(t *testing.T) {
	c := newCluster(t)
	c.apply(kube.ApplyOptions{}, webhookOf("injected"), webhookOf("shared"))
	const hooks = "admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
	for _, text := range []string{
		"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: NS-injected}\nwebhooks:\n- {name: never.example.org, clientConfig: {caBundle: Y2E=}}\n",
		webhookOf("shared"),
	} {
		o := c.objects(text)[0]
		if _, err := c.resource(hooks, "").Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "other", Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	deleted, err := c.Delete(t.Context(), c.set, kube.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range deleted.Entries {
		if want := map[string]kube.Action{c.ns + "-injected": kube.Pruned, c.ns + "-shared": kube.Kept}[entry.Object.Name]; entry.Action != want {
			t.Errorf("%s is %s, want %s (%s)", entry.Object.Name, entry.Action, want, entry.Message)
		}
	}
}
