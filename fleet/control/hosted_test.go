package control_test

import (
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var leases = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

// renew writes the Lease of an add-on's agent on a cluster.
func (g *grid) renew(cluster, namespace, addOn string, at time.Time) {
	g.Helper()
	lease := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": addOn, "namespace": namespace},
		"spec": map[string]any{"holderIdentity": addOn, "renewTime": at.UTC().Format("2006-01-02T15:04:05.000000Z")},
	}}
	_, err := g.clusters[cluster].Resource(leases).Namespace(namespace).Apply(g.Context(), addOn, lease, metav1.ApplyOptions{FieldManager: addOn, Force: true})
	g.must(err)
}

// hostedLeases shows add-ons of oslo whose agents run on rome and renew their Leases there: one that a manager installs, and one
// without a manager on the hub. Leases on oslo do not count.
func (g *grid) hostedLeases() {
	const host, namespace = "addon.open-cluster-management.io/hosting-cluster-name: rome", "open-cluster-management-agent-addon"
	g.apply(`
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata: {name: watcher}
spec: {}
---
` + on("watcher", "oslo", host) + "---" + strings.Replace(on("stray", "oslo", host), "spec: {}", "spec: {installNamespace: default}", 1))
	g.renew("oslo", namespace, "watcher", time.Now())
	g.says("oslo", "watcher", "Available", "Unknown/ManagedClusterAddOnLeaseNotFound", "there is no Lease "+namespace+"/watcher on cluster rome")
	g.renew("rome", namespace, "watcher", time.Now())
	g.renew("rome", "default", "stray", time.Now())
	g.says("oslo", "watcher", "Available", "True/ManagedClusterAddOnLeaseUpdated", "watcher add-on is available.")
	g.says("oslo", "stray", "Available", "True/ManagedClusterAddOnLeaseUpdated", "stray add-on is available.")
	g.renew("rome", namespace, "watcher", time.Now().Add(-6*time.Minute))
	g.says("oslo", "watcher", "Available", "False/ManagedClusterAddOnLeaseUpdateStopped", "watcher add-on is not available.")

	g.Log("an add-on of old renews its Lease on the hub")
	hosted := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "old-hosted", Namespace: "oslo"}, Spec: coordinationv1.LeaseSpec{RenewTime: new(metav1.NowMicro())}}
	g.must(g.client.Create(g.Context(), hosted))
	g.apply(on("old-hosted", "oslo", host))
	g.says("oslo", "old-hosted", "Available", "True/ManagedClusterAddOnLeaseUpdated", "")
	g.uninstall("old-hosted", "oslo")
	g.apply(on("old", "oslo", ""))
	g.says("oslo", "old", "Available", "Unknown/ManagedClusterAddOnLeaseNotFound", "there is no Lease "+namespace+"/old on the cluster")
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: "oslo"}, Spec: coordinationv1.LeaseSpec{RenewTime: new(metav1.NowMicro())}}
	g.must(g.client.Create(g.Context(), lease))
	g.says("oslo", "old", "Available", "True/ManagedClusterAddOnLeaseUpdated", "")
	g.uninstall("old", "oslo")

	g.Log("the agent runs on its own cluster again")
	patch := []byte(`{"metadata": {"annotations": {"addon.open-cluster-management.io/hosting-cluster-name": null}}}`)
	_, err := g.kube.Dynamic().Resource(schema.GroupVersionResource{Group: "addon.open-cluster-management.io", Version: "v1alpha1", Resource: "managedclusteraddons"}).
		Namespace("oslo").Patch(g.Context(), "watcher", types.MergePatchType, patch, metav1.PatchOptions{})
	g.must(err)
	g.says("oslo", "watcher", "Available", "True/ManagedClusterAddOnLeaseUpdated", "")
	g.uninstall("watcher", "oslo")
	g.uninstall("stray", "oslo")
	g.eventually("no work reads the Leases", func() string {
		list, err := g.kube.Dynamic().Resource(schema.GroupVersionResource{Group: "work.open-cluster-management.io", Version: "v1", Resource: "manifestworks"}).
			Namespace("rome").List(g.Context(), metav1.ListOptions{LabelSelector: "fleet.sealift.dev/lease-of-addon"})
		if err != nil || len(list.Items) > 0 {
			return fmt.Sprint(len(list.Items), " works are left, ", err)
		}
		return ""
	})
	if g.exists("rome", leases, namespace, "watcher") == nil {
		g.Error("the Lease itself is gone")
	}
}
