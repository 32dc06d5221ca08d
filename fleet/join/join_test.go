package join_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/sealift/sealift/fleet/join"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/registration"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/hubsetup"
	"github.com/sealift/sealift/kube"
)

// newHub is an API server that has the kinds of a hub.
func newHub(t *testing.T) *kube.Cluster {
	t.Helper()
	hub, err := kube.Connect(controlplane.ForTest(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	hubsetup.Define(t, hub)
	return hub
}

// TestRejoinKeepsOtherFields joins a carried cluster again, as one does to get a new token.
func TestRejoinKeepsOtherFields(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	var keys []string
	for _, c := range []join.Cluster{
		{Name: "ship", Labels: map[string]string{"region": "north", "tier": "1"}, Annotations: map[string]string{"fleet.sealift.dev/carried": "true"}},
		{Name: "ship", Labels: map[string]string{"tier": "2"}},
	} {
		if _, err := join.Hub(t.Context(), hub, c); err != nil {
			t.Fatal(err)
		}
		live, err := hub.Dynamic().Resource(ocm.ClusterVersion.WithResource("managedclusters")).Get(t.Context(), "ship", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if l, a := live.GetLabels(), live.GetAnnotations(); l["region"] != "north" || l["tier"] != c.Labels["tier"] || a["fleet.sealift.dev/carried"] != "true" {
			t.Errorf("labels %v, annotations %v", l, a)
		}
		keys = append(keys, live.GetAnnotations()[join.AgentKey])
	}
	if keys[0] == "" || keys[0] == keys[1] {
		t.Errorf("the keys of the agent are %q", keys)
	}
}

// TestDeniedClusterIsNotJoined joins a cluster that the hub accepts no more, and then does again.
func TestDeniedClusterIsNotJoined(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	clusters := hub.Dynamic().Resource(ocm.ClusterVersion.WithResource("managedclusters"))
	bindings := hub.Dynamic().Resource(rbacv1.SchemeGroupVersion.WithResource("rolebindings")).Namespace("oslo")
	if _, err := join.Hub(t.Context(), hub, join.Cluster{Name: "oslo"}); err != nil {
		t.Fatal(err)
	}
	for _, accepted := range []bool{false, true} {
		patch := fmt.Appendf(nil, `{"spec": {"hubAcceptsClient": %v}}`, accepted)
		if _, err := clusters.Patch(t.Context(), "oslo", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kubectl-patch"}); err != nil {
			t.Fatal(err)
		}
		if err := bindings.Delete(t.Context(), registration.Account, metav1.DeleteOptions{}); !accepted && err != nil { // as the hub does
			t.Fatal(err)
		}
		_, err := join.Hub(t.Context(), hub, join.Cluster{Name: "oslo"})
		if (err == nil) != accepted || err != nil && !strings.Contains(err.Error(), "join cluster oslo: the hub does not accept it: set spec.hubAcceptsClient") {
			t.Errorf("accepted %v: %v", accepted, err)
		}
		if _, err := bindings.Get(t.Context(), registration.Account, metav1.GetOptions{}); (err == nil) != accepted {
			t.Errorf("accepted %v: the binding of its agent: %v", accepted, err)
		}
	}
}

// TestNamespaceOfAnotherPurposeIsRefused joins clusters with the names of namespaces that have other owners.
func TestNamespaceOfAnotherPurposeIsRefused(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	namespaces, err := corev1client.NewForConfigAndClient(hub.Config())
	if err != nil {
		t.Fatal(err)
	}
	for name, labels := range map[string]map[string]string{"fleet": nil, "shop": nil, "oslo": {ocm.ClusterLabel: "oslo"}, "rome": {ocm.ClusterLabel: "oslo"}} {
		if _, err := namespaces.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"kube-system": "belongs to Kubernetes", "kube-node-lease": "belongs to Kubernetes", "default": "belongs to Kubernetes", "kube-of-mine": "belongs to Kubernetes",
		"fleet": "has the objects of the hub", "shop": "run 'kubectl label namespace shop open-cluster-management.io/cluster-name=shop'", "rome": "already",
		"oslo": "", "paris": "",
	} {
		_, err := join.Hub(t.Context(), hub, join.Cluster{Name: name, HubNamespace: "fleet"})
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
		if want == "" {
			continue
		}
		if _, err := namespaces.ServiceAccounts(name).Get(t.Context(), registration.Account, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s: the account of an agent: %v", name, err)
		}
	}
}

// TestJoinKeepsFieldsOfOthers joins a ManagedCluster that was created by client-side kubectl apply, as in a hub of Open Cluster
// Management.
func TestJoinKeepsFieldsOfOthers(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	clusters := hub.Dynamic().Resource(ocm.ClusterVersion.WithResource("managedclusters"))
	const kubectl = "kubectl-client-side-apply"
	made := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": ocm.ClusterVersion.String(), "kind": "ManagedCluster",
		"metadata": map[string]any{
			"name": "ship", "labels": map[string]any{"region": "north"}, "finalizers": []any{"example.org/inventory"},
			"annotations": map[string]any{"example.org/owner": "alice", "fleet.sealift.dev/occasional": "true"},
		},
		"spec": map[string]any{
			"hubAcceptsClient": true, "leaseDurationSeconds": int64(120),
			"managedClusterClientConfigs": []any{map[string]any{"url": "https://ship.example.org:6443"}},
		},
	}}
	if _, err := clusters.Create(t.Context(), made, metav1.CreateOptions{FieldManager: kubectl}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := join.Hub(t.Context(), hub, join.Cluster{Name: "ship", Labels: map[string]string{"tier": "1"}}); err != nil {
			t.Fatal(err)
		}
	}
	live, err := clusters.Get(t.Context(), "ship", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(live.Object["spec"], made.Object["spec"]) || !slices.Contains(live.GetFinalizers(), "example.org/inventory") {
		t.Errorf("the spec is %v, the finalizers are %v", live.Object["spec"], live.GetFinalizers())
	}
	l, a := live.GetLabels(), live.GetAnnotations()
	if l["region"] != "north" || l["tier"] != "1" || a["example.org/owner"] != "alice" || a["fleet.sealift.dev/occasional"] != "true" {
		t.Errorf("labels %v, annotations %v", l, a)
	}
	// fields of others disappear when they remove them
	patch := []byte(`{"metadata": {"labels": {"region": null}, "annotations": {"fleet.sealift.dev/occasional": null}}}`)
	if _, err := clusters.Patch(t.Context(), "ship", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: kubectl}); err != nil {
		t.Fatal(err)
	}
	if _, err := join.Hub(t.Context(), hub, join.Cluster{Name: "ship"}); err != nil {
		t.Fatal(err)
	}
	if live, err = clusters.Get(t.Context(), "ship", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	if l, a := live.GetLabels(), live.GetAnnotations(); l["region"] != "" || l["tier"] != "1" || a["fleet.sealift.dev/occasional"] != "" {
		t.Errorf("afterwards, labels %v, annotations %v", l, a)
	}
}
