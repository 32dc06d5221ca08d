package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/fleet/crd"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/docexamples"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/render"
)

// moving returns docs/fleet.md without its section about Open Cluster Management, and that section with a kubeconfig of its cluster.
func moving(t *testing.T, home, cluster string) (page, section string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := bytes.Cut(text, []byte("\n## Moving from OCM\n"))
	if !found || bytes.Contains(after, []byte("\n## ")) {
		t.Fatal("docs/fleet.md does not end with the section about Open Cluster Management")
	}
	page, section = filepath.Join(home, "fleet.md"), filepath.Join(home, "moving.md")
	after = bytes.ReplaceAll(bytes.ReplaceAll(after, []byte("oslo-admin.kubeconfig"), []byte(cluster)), []byte("\n  "), []byte("\n")) // blocks in a list
	for file, content := range map[string][]byte{page: before, section: after} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return page, section
}

// formerHub lists the objects of a hub of Open Cluster Management. Its template has changed since it made the work. Its webhooks do not answer.
const formerHub = `
apiVersion: v1
kind: Namespace
metadata: {name: open-cluster-management}
---
apiVersion: v1
kind: Namespace
metadata: {name: open-cluster-management-hub}
---
apiVersion: v1
kind: Namespace
metadata: {name: oslo, labels: {open-cluster-management.io/cluster-name: oslo}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cluster-manager, namespace: open-cluster-management}
spec: {replicas: 3, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cluster-manager-placement-controller, namespace: open-cluster-management-hub}
spec: {replicas: 3, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: oslo, annotations: {example.org/owner: alice}, finalizers: [cluster.open-cluster-management.io/api-resource-cleanup, cluster.open-cluster-management.io/resource-cleanup]}
spec: {hubAcceptsClient: true, leaseDurationSeconds: 60}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnTemplate
metadata: {name: hello}
spec:
  addonName: hello
  agentSpec: {workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: hello, namespace: default, labels: {app: hello}}, data: {color: blue}}]}}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata: {name: hello}
spec: {supportedConfigs: [{group: addon.open-cluster-management.io, resource: addontemplates, defaultConfig: {name: hello}}]}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ManagedClusterAddOn
metadata: {name: hello, namespace: oslo}
spec: {}
---
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: addon-hello-deploy-0, namespace: oslo, labels: {open-cluster-management.io/addon-name: hello}, finalizers: [cluster.open-cluster-management.io/manifest-work-cleanup]}
spec:
  workload:
    manifests:
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: hello, namespace: default, labels: {app: hello}}, data: {color: red, size: large}}
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: hello-old, namespace: default, labels: {app: hello}}, data: {color: red}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: manifestworkvalidators.admission.work.open-cluster-management.io}
webhooks:
- name: manifestworkvalidators.admission.work.open-cluster-management.io
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {service: {namespace: open-cluster-management-hub, name: cluster-manager-work-webhook}}
  rules: [{apiGroups: [work.open-cluster-management.io], apiVersions: ["*"], resources: [manifestworks], operations: [CREATE, UPDATE]}]
`

// klusterlet lists the objects of the agent of Open Cluster Management on its cluster, for a hub with this hash.
const klusterlet = `
apiVersion: v1
kind: Namespace
metadata: {name: open-cluster-management}
---
apiVersion: v1
kind: Namespace
metadata: {name: open-cluster-management-agent}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: klusterlet, namespace: open-cluster-management}
spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: klusterlet-agent, namespace: open-cluster-management-agent}
spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}
---
apiVersion: work.open-cluster-management.io/v1
kind: AppliedManifestWork
metadata: {name: %[1]s-addon-hello-deploy-0, finalizers: [cluster.open-cluster-management.io/applied-manifest-work-cleanup]}
spec: {hubHash: %[1]s, agentID: a1b2, manifestWorkName: addon-hello-deploy-0}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: hello, namespace: default, labels: {app: hello}}
data: {color: red, size: large}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: hello-old, namespace: default, labels: {app: hello}}
data: {color: red}
`

// define creates the definitions among some objects, as the operators of Open Cluster Management do, and waits until they are served.
func define(t *testing.T, cluster *kube.Cluster, objects []*unstructured.Unstructured) {
	t.Helper()
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() != "CustomResourceDefinition" })
	for _, o := range objects {
		client, err := cluster.Objects(t.Context(), kube.RefOf(o))
		if err == nil {
			_, err = client.Create(t.Context(), o, metav1.CreateOptions{FieldManager: "operator"})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := kube.New(cluster, kube.Options{}).Wait(t.Context(), objects, kube.WaitOptions{}); err != nil {
		t.Fatal(err)
	}
}

// create creates objects as the programs of Open Cluster Management do.
func create(t *testing.T, cluster *kube.Cluster, text string) map[string]*unstructured.Unstructured {
	t.Helper()
	objects, err := render.Decode(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	made := make(map[string]*unstructured.Unstructured)
	var record []metav1.OwnerReference
	for _, o := range objects {
		client, err := cluster.Objects(t.Context(), kube.RefOf(o))
		if err != nil {
			t.Fatal(err)
		}
		if o.GetKind() == "ConfigMap" {
			o.SetOwnerReferences(record)
		}
		if o, err = client.Create(t.Context(), o, metav1.CreateOptions{FieldManager: "work"}); err != nil {
			t.Fatal(err)
		}
		if o.GetKind() == "AppliedManifestWork" {
			record = []metav1.OwnerReference{{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName(), UID: o.GetUID()}}
		}
		made[o.GetKind()+"/"+o.GetName()] = o
	}
	return made
}

// TestHubTakesOverOpenClusterManagement follows the section of docs/fleet.md with a hub and a cluster as Open Cluster Management leaves them.
func TestHubTakesOverOpenClusterManagement(t *testing.T) {
	short.Skip(t, "kube-apiservers")
	home, program, path := follower(t)
	onHub, onCluster := controlplane.ForTest(t), controlplane.ForTest(t)
	admin, oslo := filepath.Join(home, "hub.kubeconfig"), filepath.Join(home, "oslo-admin.kubeconfig")
	for file, cfg := range map[string]*rest.Config{admin: onHub, oslo: onCluster} {
		if err := controlplane.WriteKubeconfig(file, cfg); err != nil {
			t.Fatal(err)
		}
	}
	hubCluster, err1 := kube.Connect(onHub, nil)
	cluster, err2 := kube.Connect(onCluster, nil)
	hubKinds, err3 := crd.Hub(crd.Conversion{Service: "cluster-manager-addon-webhook", Namespace: "open-cluster-management-hub"})
	kinds, err4 := crd.Managed()
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	define(t, hubCluster, hubKinds)
	create(t, hubCluster, formerHub)
	define(t, cluster, kinds)
	sum := sha256.Sum256([]byte(onHub.Host))
	made := create(t, cluster, fmt.Sprintf(klusterlet, hex.EncodeToString(sum[:])))
	record := made["AppliedManifestWork/"+hex.EncodeToString(sum[:])+"-addon-hello-deploy-0"]
	var applied []any
	for _, name := range []string{"hello", "hello-old"} {
		applied = append(applied, map[string]any{"version": "v1", "resource": "configmaps", "namespace": "default", "name": name, "uid": string(made["ConfigMap/"+name].GetUID())})
	}
	record.Object["status"] = map[string]any{"appliedResources": applied}
	records := cluster.Dynamic().Resource(schema.GroupVersionResource{Group: "work.open-cluster-management.io", Version: "v1", Resource: "appliedmanifestworks"})
	if _, err := records.UpdateStatus(t.Context(), record, metav1.UpdateOptions{FieldManager: "work"}); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ready, ended := make(chan struct{}), make(chan error, 2)
	go func() {
		ended <- runHubAfter(ctx, onHub, ready)
	}()
	go func() { ended <- runAgent(ctx, filepath.Join(home, "oslo.kubeconfig"), onCluster) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	_, section := moving(t, home, oslo)
	docexamples.Follow(t, section, program, "KUBECONFIG="+admin, "HOME="+home, path)

	clusters := hubCluster.Dynamic().Resource(schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters"})
	live, err := clusters.Get(t.Context(), "oslo", metav1.GetOptions{})
	if err != nil || live.GetAnnotations()["example.org/owner"] != "alice" {
		t.Errorf("the cluster has %v, %v", live, err)
	}
	if err := clusters.Delete(t.Context(), "oslo", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if live, err = clusters.Get(t.Context(), "oslo", metav1.GetOptions{}); err != nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the cluster is held up by %v", live.GetFinalizers())
		}
	}
}

// runHubAfter runs a hub once the webhooks of the former one are gone.
func runHubAfter(ctx context.Context, cfg *rest.Config, ready chan struct{}) error {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	for {
		list, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) == 0 {
			return runHub(ctx, cfg, ready)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(50 * time.Millisecond):
		}
	}
}
