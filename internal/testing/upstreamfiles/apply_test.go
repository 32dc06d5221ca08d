package upstreamfiles

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/kube"
)

// shared has the controllers that deletions wait for. Rows are alone in it, one after the other.
var shared = controlplane.Shared{Options: controlplane.Options{Controllers: []string{"namespace-controller", "persistentvolumeclaim-protection-controller"}}}

// checkApplied applies objects to an API server, applies them again, and removes them.
func (r row) checkApplied(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	cfg := shared.Config(t)
	cluster, err := kube.Connect(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	k, set := kube.New(cluster, kube.Options{}), kube.Set{Name: "row"}
	if r.namespace != "" && r.chart == "" {
		controlplane.Apply(t, cluster, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+r.namespace+"}\n")
	}
	if _, err := k.Apply(t.Context(), set, nil, kube.ApplyOptions{}); err != nil { // makes the namespace of records
		t.Fatal(err)
	}
	if _, err := k.Delete(t.Context(), set, kube.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	before := inventory(t, cluster)
	applied, err := k.Apply(t.Context(), set, objects, kube.ApplyOptions{FailFast: r.unserved != ""})
	if r.unserved != "" {
		if err == nil || !strings.Contains(err.Error(), r.unserved) {
			t.Errorf("apply: %v; want %s", err, r.unserved)
		}
	} else {
		r.checkUnchanged(t, k, set, objects, applied, err)
	}
	removed, err := k.Delete(t.Context(), set, kube.DeleteOptions{Protected: true})
	if err != nil {
		t.Fatalf("remove: %v", err)
	}
	if diff := cmp.Diff(keys(before), keys(inventory(t, cluster))); diff != "" {
		t.Errorf("left after the removal (-before +after):\n%s", diff)
	}
	t.Logf("%d objects: %s; removed: %s", len(objects), applied.Summary(), removed.Summary())
}

// checkUnchanged applies objects again, and compares them with the cluster.
func (r row) checkUnchanged(t *testing.T, k *kube.Engine, set kube.Set, objects []*unstructured.Unstructured, applied kube.Result, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("apply: %v", err)
	}
	for i, o := range objects {
		if r.chart != "" && i < len(applied.Entries) && o.GetNamespace() != "" && applied.Entries[i].Object.Namespace != o.GetNamespace() {
			t.Errorf("%s %s is not in a namespace, but was rendered with %s", o.GetKind(), o.GetName(), o.GetNamespace())
		}
	}
	again, err := k.Apply(t.Context(), set, objects, kube.ApplyOptions{})
	if err != nil {
		t.Errorf("apply again: %v", err)
	}
	for _, entry := range again.Entries {
		if entry.Action != kube.Unchanged {
			t.Errorf("applied again: %s", entry)
		}
	}
	if changes, err := k.Diff(t.Context(), set, objects, kube.ApplyOptions{}); err != nil || changes.Count(kube.Unchanged) != len(objects) {
		t.Errorf("the difference to the cluster is %s, %v", changes.Summary(), err)
	}
}

// inventory lists all objects of a cluster, but for those that its programs make at their own times.
func inventory(t *testing.T, cluster *kube.Cluster) map[string]bool {
	t.Helper()
	cfg, client := cluster.Config()
	kinds, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, client)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := kinds.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := metadata.NewForConfigAndClient(metadata.ConfigFor(cfg), client)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, []*metav1.APIResourceList{list}) {
			for _, r := range resource.APIResources {
				maps.Copy(all, listed(t, objects, version.WithResource(r.Name)))
			}
		}
	}
	return all
}

func listed(t *testing.T, objects metadata.Interface, of schema.GroupVersionResource) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	if of.Resource == "events" || of.Resource == "leases" || of.Resource == "componentstatuses" {
		return names
	}
	list, err := objects.Resource(of).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list %s: %v", of, err)
	}
	for _, item := range list.Items {
		if item.Namespace == "default" && item.Name == "kubernetes" {
			continue // the API server makes its own Service when it gets to it
		}
		names[of.Resource+"."+of.Group+" "+item.Namespace+"/"+item.Name] = true
	}
	return names
}
