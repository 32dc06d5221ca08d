package hub_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/sealift/sealift/fleet/hub"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/kube"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// definition is one of Open Cluster Management, with open schemas. The last version is stored.
func definition(kind, plural string, versions ...string) *unstructured.Unstructured {
	var list []any
	for i, v := range versions {
		list = append(list, map[string]any{"name": v, "served": true, "storage": i == len(versions)-1, "schema": map[string]any{
			"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
	}
	_, group, _ := strings.Cut(plural, ".")
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural, "annotations": map[string]any{"example.org/owner": "alice"}, "labels": map[string]any{"backup": "yes"},
			"finalizers": []any{"example.org/inventory"}},
		"spec": map[string]any{
			"group": group, "scope": "Cluster", "versions": list,
			"names": map[string]any{"kind": kind, "plural": strings.TrimSuffix(plural, "."+group), "categories": []any{"ocm"}},
		},
	}}
}

// define makes a definition under a field manager, and waits until it is served.
func define(t *testing.T, cluster *kube.Cluster, manager string, d *unstructured.Unstructured) {
	t.Helper()
	if _, err := cluster.Dynamic().Resource(definitions).Create(t.Context(), d, metav1.CreateOptions{FieldManager: manager}); err != nil {
		t.Fatal(err)
	}
	if err := kube.New(cluster, kube.Options{}).Wait(t.Context(), []*unstructured.Unstructured{d}, kube.WaitOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestOpenClusterManagementHubIsTakenOver runs a hub where upstream's definitions are: some from client-side kubectl apply, and some from
// the cluster manager with its conversion webhook. A template that is stored as v1beta1 is read in both versions.
func TestOpenClusterManagementHubIsTakenOver(t *testing.T) {
	t.Parallel()
	cfg := controlplane.ForTest(t)
	cluster, err := kube.Connect(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	const templates, addons = "addontemplates.addon.open-cluster-management.io", "clustermanagementaddons.addon.open-cluster-management.io"
	define(t, cluster, "kubectl-client-side-apply", definition("AddOnTemplate", templates, "v1alpha1", "v1beta1"))
	define(t, cluster, "cluster-manager", definition("ClusterManagementAddOn", addons, "v1alpha1", "v1beta1"))
	template := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "addon.open-cluster-management.io/v1beta1", "kind": "AddOnTemplate", "metadata": map[string]any{"name": "hello"},
		"spec": map[string]any{"addonName": "hello", "agentSpec": map[string]any{"workload": map[string]any{}}},
	}}
	if _, err := cluster.Dynamic().Resource(addOns("v1beta1", "addontemplates")).Create(t.Context(), template, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{templates, addons} { // the webhook of a hub that is gone
		live, err := cluster.Dynamic().Resource(definitions).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		conversion := map[string]any{"strategy": "Webhook", "webhook": map[string]any{"conversionReviewVersions": []any{"v1"}, "clientConfig": map[string]any{
			"service": map[string]any{"namespace": "open-cluster-management-hub", "name": "cluster-manager-addon-webhook"}}}}
		if err := unstructured.SetNestedMap(live.Object, conversion, "spec", "conversion"); err != nil {
			t.Fatal(err)
		}
		if _, err := cluster.Dynamic().Resource(definitions).Update(t.Context(), live, metav1.UpdateOptions{FieldManager: "cluster-manager"}); err != nil {
			t.Fatal(err)
		}
	}
	client := runHub(t, cfg, hub.Options{})
	for _, name := range []string{templates, addons} {
		live, err := client.Resource(definitions).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if live.GetAnnotations()["example.org/owner"] != "alice" || live.GetLabels()["backup"] != "yes" || !slices.Contains(live.GetFinalizers(), "example.org/inventory") {
			t.Errorf("%s: annotations %v, labels %v, finalizers %v", name, live.GetAnnotations(), live.GetLabels(), live.GetFinalizers())
		}
		if _, found, _ := unstructured.NestedMap(live.Object, "spec", "conversion", "webhook", "clientConfig", "service"); found {
			t.Errorf("%s: the webhook of the earlier hub is still asked", name)
		}
	}
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		read, err := readSoon(t.Context(), client.Resource(addOns(version, "addontemplates")), "hello")
		if err != nil || read.GetAPIVersion() != "addon.open-cluster-management.io/"+version {
			t.Errorf("%s: %v, %v", version, read, err)
		}
	}
}

// readSoon reads an object from an API server whose definitions have just changed.
func readSoon(ctx context.Context, from dynamic.ResourceInterface, name string) (o *unstructured.Unstructured, err error) {
	for range 50 {
		if o, err = from.Get(ctx, name, metav1.GetOptions{}); err == nil {
			return o, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil, err
}

// TestUnservedVersionsAreNamedFirst has ManagedClusterSets as hubs before Open Cluster Management 0.12 stored them. The hub refuses
// to run, and changes no definition.
func TestUnservedVersionsAreNamedFirst(t *testing.T) {
	t.Parallel()
	cfg := controlplane.ForTest(t)
	cluster, err := kube.Connect(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	define(t, cluster, "cluster-manager", definition("ManagedClusterSet", "managedclustersets.cluster.open-cluster-management.io", "v1beta2", "v1beta1"))
	err = hub.Run(t.Context(), hub.Options{Config: cfg, Webhook: hub.Webhook{Listen: "127.0.0.1:0"}})
	if err == nil || !strings.Contains(err.Error(), "managedclustersets.cluster.open-cluster-management.io may be stored in version v1beta1") ||
		!strings.Contains(err.Error(), "status.storedVersions") {
		t.Errorf("the hub says %v", err)
	}
	_, err = cluster.Dynamic().Resource(definitions).Get(t.Context(), "managedclusters.cluster.open-cluster-management.io", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("a definition was made: %v", err)
	}
}
