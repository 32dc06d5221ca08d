package kube_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/kube"
)

const claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, namespace: NS}\n" +
	"spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"

func TestPruneLeavesForeignObjects(t *testing.T) {
	c := newCluster(t)
	c.apply(kube.ApplyOptions{}, configMapOf("stays", "1"), configMapOf("leaves", "1"))
	c.create(configMapOf("stranger", "1"))
	// A controller that copies labels, as that of Endpoints does, creates no members.
	copied := c.objects(configMapOf("copy", "1"))[0]
	copied.SetLabels(map[string]string{"applyset.kubernetes.io/part-of": c.set.ID()}) // which may have NS in it
	if _, err := c.resource("v1/configmaps", c.ns).Create(t.Context(), copied, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	result := c.apply(kube.ApplyOptions{}, configMapOf("stays", "1"))
	if diff := cmp.Diff([]string{"ConfigMap/stays unchanged", "ConfigMap/leaves pruned"}, actions(result)); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]bool{"stays": true, "leaves": false, "stranger": true, "copy": true} {
		if got := c.get("v1/configmaps", name) != nil; got != want {
			t.Errorf("%s exists: %v", name, got)
		}
	}
}

func TestPruneKeepsDataByDefault(t *testing.T) {
	c := newCluster(t)
	namespace := "apiVersion: v1\nkind: Namespace\nmetadata: {name: NS-extra}"
	c.apply(kube.ApplyOptions{}, configMapOf("a", "1"), claim, namespace)
	for range 2 { // also the second time, when they had left already
		got := actions(c.apply(kube.ApplyOptions{}, configMapOf("a", "1")))
		if diff := cmp.Diff([]string{"ConfigMap/a unchanged", "Namespace/" + c.ns + "-extra kept", "PersistentVolumeClaim/data kept"}, got); diff != "" {
			t.Fatal(diff)
		}
	}
	got := actions(c.apply(kube.ApplyOptions{PruneProtected: true}, configMapOf("a", "1")))
	if diff := cmp.Diff([]string{"ConfigMap/a unchanged", "Namespace/" + c.ns + "-extra pruned", "PersistentVolumeClaim/data pruned"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestNoPruneKeepsLeaversForLaterRun(t *testing.T) {
	c := newCluster(t)
	c.apply(kube.ApplyOptions{}, configMapOf("a", "1"), webDeployment)
	if got := actions(c.apply(kube.ApplyOptions{NoPrune: true}, configMapOf("a", "1"))); len(got) != 1 {
		t.Errorf("%v", got)
	}
	got := actions(c.apply(kube.ApplyOptions{}, configMapOf("a", "1")))
	if diff := cmp.Diff([]string{"ConfigMap/a unchanged", "Deployment/web pruned"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestDeleteRemovesSetAndItsRecord(t *testing.T) {
	c := newCluster(t)
	c.apply(kube.ApplyOptions{}, configMapOf("a", "1"), webDeployment)
	c.create(configMapOf("stranger", "1"))
	result, err := c.Delete(t.Context(), c.set, kube.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Deployment/web pruned", "ConfigMap/a pruned"}, actions(result)); diff != "" {
		t.Errorf("what depends on others goes first (-want +got):\n%s", diff)
	}
	if c.get("v1/configmaps", "stranger") == nil {
		t.Error("the stranger is gone")
	}
	if _, err := c.resource("v1/secrets", kube.DefaultNamespace).Get(t.Context(), c.set.Name, metav1.GetOptions{}); err == nil {
		t.Error("the record is still there")
	}
	if result, err := c.Delete(t.Context(), c.set, kube.DeleteOptions{}); err != nil || len(result.Entries) != 0 {
		t.Errorf("a set that does not exist: %v, %v", actions(result), err)
	}
}

func TestDeleteKeepsDataAndItsRecordByDefault(t *testing.T) {
	c := newCluster(t)
	c.apply(kube.ApplyOptions{}, configMapOf("a", "1"), claim)
	// No controller removes the finalizer when the claim is deleted.
	c.update("v1/persistentvolumeclaims", "data", "somebody", func(content map[string]any) { content["metadata"].(map[string]any)["finalizers"] = nil })
	for _, protected := range []bool{false, true} {
		result, err := c.Delete(t.Context(), c.set, kube.DeleteOptions{Protected: protected, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if got := result.Count(kube.Kept) == 0; got != protected {
			t.Errorf("protected %v: %v", protected, actions(result))
		}
	}
	if c.get("v1/persistentvolumeclaims", "data") != nil {
		t.Error("the claim is still there")
	}
}

func TestDeleteNamesFinalizerItWaitsFor(t *testing.T) {
	c := newCluster(t)
	doc := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: NS, finalizers: [example.com/hold]}"
	c.apply(kube.ApplyOptions{}, doc)
	for range 2 { // also the second time, when it is being deleted already
		_, err := c.Delete(t.Context(), c.set, kube.DeleteOptions{Timeout: time.Second})
		if err == nil {
			t.Fatal("no error")
		}
		if want := "waits for finalizer example.com/hold"; !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	c.update("v1/configmaps", "a", "controller", func(content map[string]any) { content["metadata"].(map[string]any)["finalizers"] = nil })
	if _, err := c.Delete(t.Context(), c.set, kube.DeleteOptions{}); err != nil {
		t.Errorf("the next call ends what the first began: %v", err)
	}
}
