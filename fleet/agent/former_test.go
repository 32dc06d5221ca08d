package agent_test

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/ocm"
)

// earlierAgent is the field manager of the agent of Open Cluster Management.
const earlierAgent = client.FieldOwner("work")

// recorded writes the state that the agent of Open Cluster Management leaves on a cluster: the record of a work for a hub's address, and
// ConfigMaps. The record owns them, except those that a rule lets stay.
func (c *cluster) recorded(work, server string, names ...string) *ocm.AppliedManifestWork {
	c.Helper()
	sum := sha256.Sum256([]byte(server))
	hash := hex.EncodeToString(sum[:])
	record := &ocm.AppliedManifestWork{
		ObjectMeta: metav1.ObjectMeta{Name: hash + "-" + work, Finalizers: []string{"cluster.open-cluster-management.io/applied-manifest-work-cleanup"}},
		Spec:       ocm.AppliedManifestWorkSpec{HubHash: hash, AgentID: "a1b2", ManifestWorkName: work},
	}
	c.must(c.Create(c.Context(), record, earlierAgent))
	for _, name := range names {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "default"},
			"data": map[string]any{"color": "old", "size": "old"}}}
		if name != "orphan" {
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "work.open-cluster-management.io/v1", Kind: "AppliedManifestWork", Name: record.Name, UID: record.UID}})
		}
		if name == "shared" {
			o.SetOwnerReferences(append(o.GetOwnerReferences(), metav1.OwnerReference{APIVersion: "work.open-cluster-management.io/v1", Kind: "AppliedManifestWork", Name: "another", UID: "2"}))
		}
		if name == "stuck" {
			o.SetFinalizers([]string{"example.org/backup"})
		}
		c.must(c.Create(c.Context(), o, earlierAgent))
		record.Status.AppliedResources = append(record.Status.AppliedResources, ocm.AppliedResource{
			ResourceIdentifier: ocm.ResourceIdentifier{Resource: "configmaps", Namespace: "default", Name: name}, Version: "v1", UID: string(o.GetUID())})
	}
	record.Status.AppliedResources = append(record.Status.AppliedResources, ocm.AppliedResource{
		ResourceIdentifier: ocm.ResourceIdentifier{Group: "gone.example.com", Resource: "things", Name: "thing"}, Version: "v1"})
	c.must(c.Status().Update(c.Context(), record, client.FieldOwner("work")))
	return record
}

func (c *cluster) owners(name string) (n int) {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("v1")
	o.SetKind("ConfigMap")
	c.must(c.Get(c.Context(), types.NamespacedName{Namespace: "default", Name: name}, o))
	return len(o.GetOwnerReferences())
}

// TestOpenClusterManagementWorkIsTakenOver starts an agent where Open Cluster Management's agent has applied a work. Its template has
// changed since: removed objects and fields are deleted, and those of others stay.
func TestOpenClusterManagementWorkIsTakenOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.eventually("the kinds of agents are there", func() bool {
		return c.Get(t.Context(), types.NamespacedName{Name: ocm.DefaultInstallNamespace}, &corev1.Namespace{}) == nil
	})
	c.stop()
	record := c.recorded("w", c.config.Host, "kept", "left", "orphan", "shared")
	c.apply(`
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: w, namespace: rome, finalizers: [cluster.open-cluster-management.io/manifest-work-cleanup]}
spec: {workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: kept, namespace: default}, data: {color: new}}]}}
`)
	c.start()
	c.eventually("the object that left the template is gone", func() bool { return c.configMap("left") == nil })
	c.eventually("the work is applied", func() bool { return c.isApplied("w") })
	if data := c.configMap("kept"); len(data) != 1 || data["color"] != "new" {
		t.Errorf("the object that stays has %v", data)
	}
	if c.owners("kept") != 0 || c.owners("shared") != 1 || c.configMap("orphan") == nil {
		t.Errorf("owners: %d and %d; the orphan has %v", c.owners("kept"), c.owners("shared"), c.configMap("orphan"))
	}
	c.eventually("the record is the agent's", func() bool {
		var now ocm.AppliedManifestWork
		c.must(c.Get(t.Context(), types.NamespacedName{Name: record.Name}, &now))
		return now.UID == record.UID && len(now.Finalizers) == 0 && now.Spec.AgentID == "rome" && len(now.Status.AppliedResources) == 1
	})
	c.must(c.Delete(t.Context(), &ocm.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "rome", Name: "w"}}))
	c.eventually("the work goes", func() bool {
		return c.Get(t.Context(), types.NamespacedName{Namespace: "rome", Name: "w"}, &ocm.ManifestWork{}) != nil && c.configMap("kept") == nil
	})
	if c.configMap("shared") == nil || c.configMap("orphan") == nil {
		t.Error("an object of others is gone")
	}
}

// TestWorkIsTakenOverAfterHubMoved has records for the address that the hub had before. One work is deleted before the agent sees it.
func TestWorkIsTakenOverAfterHubMoved(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.eventually("the kinds of agents are there", func() bool {
		return c.Get(t.Context(), types.NamespacedName{Name: ocm.DefaultInstallNamespace}, &corev1.Namespace{}) == nil
	})
	c.stop()
	c.former = []string{"https://old.example.com:6443"}
	c.recorded("w", c.former[0], "left")
	c.recorded("v", c.former[0], "stays", "stuck")
	other := c.recorded("w", "https://another-hub.example.com:6443", "theirs")
	c.apply(`
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: w, namespace: rome}
spec: {workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: new, namespace: default}}]}}
---
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: v, namespace: rome, finalizers: [cluster.open-cluster-management.io/manifest-work-cleanup]}
spec:
  deleteOption: {propagationPolicy: SelectivelyOrphan, selectivelyOrphans: {orphaningRules: [{resource: configmaps, namespace: default, name: stays}]}}
  workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: stays, namespace: default}}]}
`)
	c.must(c.Delete(t.Context(), &ocm.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "rome", Name: "v"}}))
	c.start()
	c.eventually("what left the first work is gone", func() bool { return c.isApplied("w") && c.configMap("left") == nil })
	stuck := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	c.eventually("what is held up is being deleted", func() bool {
		return c.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "stuck"}, stuck) == nil && stuck.GetDeletionTimestamp() != nil
	})
	there := func() bool {
		return c.Get(t.Context(), types.NamespacedName{Namespace: "rome", Name: "v"}, &ocm.ManifestWork{}) == nil
	}
	if !there() {
		t.Error("the work went before its object")
	}
	stuck.SetFinalizers(nil)
	c.must(c.Update(t.Context(), stuck))
	c.eventually("then the work goes", func() bool { return !there() })
	if c.configMap("stays") == nil || c.owners("stays") != 0 || c.configMap("theirs") == nil || c.owners("theirs") != 1 {
		t.Error("an object that stays is gone, or will go with a record")
	}
	c.eventually("only the records of others and our own are left", func() bool {
		var records ocm.List[ocm.AppliedManifestWork]
		c.must(c.List(t.Context(), &records))
		records.Items = slices.DeleteFunc(records.Items, func(r ocm.AppliedManifestWork) bool {
			return slices.Equal(r.Finalizers, []string{"orphan"}) && r.DeletionTimestamp != nil // the garbage collector does not run here
		})
		return len(records.Items) == 2 && slices.ContainsFunc(records.Items, func(r ocm.AppliedManifestWork) bool { return r.UID == other.UID })
	})
	var w ocm.ManifestWork
	c.must(c.Get(t.Context(), types.NamespacedName{Namespace: "rome", Name: "w"}, &w))
	if !meta.IsStatusConditionTrue(w.Status.Conditions, "Applied") {
		t.Errorf("conditions %v", w.Status.Conditions)
	}
}
