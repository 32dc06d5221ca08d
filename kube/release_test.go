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
