package cluster

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sealift/sealift/addon"
	"github.com/sealift/sealift/kube"
)

// applyLamp applies a version of the add-on "lights" with a Deployment, as a hook does, and without waiting.
func (c *ownedCluster) applyLamp(memory, version, more string) {
	c.Helper()
	dir := c.TempDir()
	for name, content := range map[string]string{"kustomization.yaml": "resources: [all.yaml]\n", "all.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: lamp, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: lamp}}
  template:
    metadata: {labels: {app: lamp}}
    spec: {containers: [{name: lamp, image: "example.org/lamp:` + version + `"}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: ` + more + `, namespace: default}
data: {version: "` + version + `"}
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			c.Fatal(err)
		}
	}
	a := AddOn{Name: "lights", Memory: memory, Applied: addon.Applied{Version: version, Digest: "sha256:" + version}}
	if err := c.applier.apply(c.Context(), a, dir, 0, &bytes.Buffer{}); err != nil {
		c.Fatal(err)
	}
}

// lamp is the Deployment, and the other objects of the add-on, without the server's fields.
func (c *ownedCluster) lamp() (deployment map[string]any, names []string) {
	c.Helper()
	members, err := c.applier.engine.Members(c.Context(), kube.Set{Name: "lights"})
	if err != nil {
		c.Fatal(err)
	}
	for _, m := range members {
		names = append(names, m.GetKind()+" "+m.GetName())
		if m.GetKind() != "Deployment" {
			continue
		}
		m = m.DeepCopy()
		for _, field := range []string{"resourceVersion", "generation", "managedFields", "uid", "creationTimestamp"} {
			unstructured.RemoveNestedField(m.Object, "metadata", field)
		}
		unstructured.RemoveNestedField(m.Object, "status")
		deployment = m.Object
	}
	return deployment, names
}

// rollOut marks the Deployment of a version as rolled out, as its controller would, or as not.
func (c *ownedCluster) rollOut(version string, available int64) error {
	deployments := c.client.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace("default")
	d, err := deployments.Get(c.Context(), "lamp", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if text, err := d.MarshalJSON(); err != nil || !strings.Contains(string(text), "lamp:"+version) {
		return errors.Join(errors.New("the Deployment has another version"), err)
	}
	is := map[int64]string{0: "False", 1: "True"}[available]
	d.Object["status"] = map[string]any{
		"observedGeneration": d.GetGeneration(), "replicas": int64(1), "updatedReplicas": int64(1), "readyReplicas": available, "availableReplicas": available,
		"conditions": []any{
			map[string]any{"type": "Available", "status": is, "reason": "Test", "message": "as the test says"},
			map[string]any{"type": "Progressing", "status": is, "reason": "NewReplicaSetAvailable", "message": "as the test says"},
		},
	}
	_, err = deployments.UpdateStatus(c.Context(), d, metav1.UpdateOptions{})
	return err
}

func (c *ownedCluster) mustRollOut(version string, available int64) {
	c.Helper()
	if err := c.rollOut(version, available); err != nil {
		c.Fatal(err)
	}
}

// TestUnhealthyAddOnIsRolledBack compares objects before an unhealthy version and after its rollback.
func TestUnhealthyAddOnIsRolledBack(t *testing.T) {
	c, memory := newOwnedCluster(t), t.TempDir()
	c.applyLamp(memory, "1.0.0", "old")
	c.mustRollOut("1.0.0", 1)
	if gone, err := c.applier.rollBack(t.Context(), memory, time.Second, &bytes.Buffer{}); err != nil || len(gone) > 0 {
		t.Fatalf("an add-on that is well went back: %v, %v", gone, err)
	}
	before, _ := c.lamp()

	c.applyLamp(memory, "2.0.0", "new")
	c.mustRollOut("2.0.0", 0)
	stop := make(chan struct{})
	go func() { // the controller finds the old version healthy
		for c.rollOut("1.0.0", 1) != nil {
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	gone, err := c.applier.rollBack(t.Context(), memory, time.Second, &bytes.Buffer{})
	close(stop)
	if err != nil || len(gone) != 1 || gone[0].To != "1.0.0" || !strings.Contains(gone[0].Why, "lamp") {
		t.Fatalf("%+v, %v", gone, err)
	}
	after, names := c.lamp()
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the Deployment is not what it was (-before +after):\n%s", diff)
	}
	if got := strings.Join(names, ", "); strings.Contains(got, "new") || !strings.Contains(got, "ConfigMap old") {
		t.Errorf("the add-on has %s", got)
	}
	record, _, err := c.applier.records.Get(t.Context(), "lights")
	if err != nil || record.Version != "1.0.0" {
		t.Errorf("the record says %+v, %v", record, err)
	}
	if left, err := unproven(memory); err != nil || len(left) > 0 {
		t.Errorf("left to go back: %v, %v", left, err)
	}
}

// TestNeverHealthyAddOnIsKept keeps a first version, and reports that.
func TestNeverHealthyAddOnIsKept(t *testing.T) {
	c, memory := newOwnedCluster(t), t.TempDir()
	c.applyLamp(memory, "1.0.0", "old")
	c.mustRollOut("1.0.0", 0)
	gone, err := c.applier.rollBack(t.Context(), memory, time.Second, &bytes.Buffer{})
	if err != nil || len(gone) != 1 || gone[0].To != "" || !strings.Contains(gone[0].String(), "is not rolled back") {
		t.Fatalf("%+v, %v", gone, err)
	}
	if err := Remember(memory); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(memory, "lights.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := Remember(filepath.Join(memory, "none")); err != nil {
		t.Error(err)
	}
}
