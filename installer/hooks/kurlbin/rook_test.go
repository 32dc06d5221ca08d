package kurlbin_test

import (
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/render"
)

const rookObjects = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: cephclusters.ceph.rook.io}
spec:
  group: ceph.rook.io
  scope: Namespaced
  names: {kind: CephCluster, plural: cephclusters}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: rook-ceph}
---
apiVersion: ceph.rook.io/v1
kind: CephCluster
metadata: {name: rook-ceph, namespace: rook-ceph}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: rook-ceph-mgr-a, namespace: rook-ceph, labels: {rook_cluster: rook-ceph, rook-version: v1.10.8, ceph-version: 17.2.5-0}}
spec:
  replicas: 0
  selector: {matchLabels: {app: mgr}}
  template:
    metadata: {labels: {app: mgr}}
    spec: {containers: [{name: mgr, image: example.org/mgr:1}]}
`

// useCluster selects a cluster as the one of $KUBECONFIG.
func useCluster(t *testing.T, c *rest.Config) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(name, c); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", name)
}

func TestRookHealthAndVersionAreRead(t *testing.T) {
	config := controlplane.ForTest(t)
	useCluster(t, config)
	cluster, err := kube.Connect(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	engine := kube.New(cluster, kube.Options{})
	objects, err := render.Decode(strings.NewReader(rookObjects))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Apply(t.Context(), kube.Set{Name: "rook"}, objects, kube.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ceph := client.Resource(schema.GroupVersionResource{Group: "ceph.rook.io", Version: "v1", Resource: "cephclusters"}).Namespace("rook-ceph")
	for _, row := range []struct{ status, flags, want string }{
		{"", "", "health of Ceph: unknown"},
		{"{ceph: {health: HEALTH_OK}}", "", ""},
		{"{ceph: {health: HEALTH_WARN, details: {OSD_DOWN: {}, MON_CLOCK_SKEW: {}}}}", "", "HEALTH_WARN MON_CLOCK_SKEW, OSD_DOWN"},
		{"{ceph: {health: HEALTH_WARN, details: {OSD_DOWN: {}, MON_CLOCK_SKEW: {}}}}", "--ignore-checks MON_CLOCK_SKEW", "HEALTH_WARN OSD_DOWN"},
		{"{ceph: {health: HEALTH_WARN, details: {MON_CLOCK_SKEW: {}}}}", "--ignore-checks=MON_CLOCK_SKEW,OSD_DOWN", ""},
	} {
		cluster, err := ceph.Get(t.Context(), "rook-ceph", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		status := map[string]any{}
		if err := yaml.Unmarshal([]byte(row.status), &status); err != nil {
			t.Fatal(err)
		}
		unstructured.RemoveNestedField(cluster.Object, "status")
		if len(status) > 0 {
			cluster.Object["status"] = status
		}
		if _, err := ceph.Update(t.Context(), cluster, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err = run(t, "", append([]string{"kurl", "rook", "health"}, strings.Fields(row.flags)...)...)
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s %s: %v, want %q", row.status, row.flags, err, row.want)
		}
	}
	for words, want := range map[string]string{
		"rook wait-for-rook-version 1.10.8 --timeout=300": "", "rook wait-for-ceph-version 17.2.5 --timeout 300": "",
		"rook wait-for-rook-version 1.10.9 --timeout=1": "not within 1s", "rook wait-for-health 1": "not within 1s",
	} {
		_, err := run(t, "", append([]string{"kurl"}, strings.Fields(words)...)...)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", words, err, want)
		}
	}
}
