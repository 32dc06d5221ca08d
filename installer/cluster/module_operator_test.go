package cluster

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/addon"
)

// operatorOf writes a kustomization of an operator of modules: the digest of its modules, and their options.
func operatorOf(t *testing.T, digest, options string) (dir string) {
	t.Helper()
	annotations, err := Modules{"addon-operator", map[string]any{"hello": map[string]any{"greeting": options, "size": 1}}}.Annotations()
	if err != nil {
		t.Fatal(err)
	}
	metadata, err := yaml.Marshal(map[string]any{"name": "operator", "namespace": "default", "annotations": annotations})
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for name, text := range map[string]string{"kustomization.yaml": "resources: [operator.yaml]\n", "operator.yaml": `apiVersion: apps/v1
kind: Deployment
spec:
  replicas: 1
  selector: {matchLabels: {app: operator}}
  template:
    metadata: {labels: {app: operator}, annotations: {sealift.dev/modules: "` + digest + `"}}
    spec: {containers: [{name: operator, image: example.org/operator:1}]}
metadata:
  ` + strings.ReplaceAll(strings.TrimSpace(string(metadata)), "\n", "\n  ") + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// operator is an operator of modules in a real API server. The test creates one of its Pods instead of the controllers.
type operator struct {
	*ownedCluster

	memory string
}

func (o *operator) apply(version, digest, options string) error {
	a := AddOn{Name: "lights", Memory: o.memory, Applied: addon.Applied{Version: version, Digest: "sha256:" + version}}
	return o.applier.apply(o.Context(), a, operatorOf(o.T, digest, options), 0, &bytes.Buffer{})
}

func (o *operator) options() string {
	o.Helper()
	live, err := o.applier.client.CoreV1().ConfigMaps("default").Get(o.Context(), "addon-operator", metav1.GetOptions{})
	if err != nil {
		o.Fatal(err)
	}
	return live.Data["hello"]
}

func (o *operator) wantOptions(when, want string) {
	o.Helper()
	if got := o.options(); got != want {
		o.Errorf("%s, the options are %q, want %q", when, got, want)
	}
}

func (o *operator) replicas() int32 {
	o.Helper()
	live, err := o.applier.client.AppsV1().Deployments("default").Get(o.Context(), "operator", metav1.GetOptions{})
	if err != nil {
		o.Fatal(err)
	}
	return *live.Spec.Replicas
}

func (o *operator) startPod() {
	o.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "operator-1", Labels: map[string]string{"app": "operator"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "operator", Image: "example.org/operator:1"}}}}
	if _, err := o.applier.client.CoreV1().Pods("default").Create(o.Context(), pod, metav1.CreateOptions{}); err != nil {
		o.Fatal(err)
	}
}

// endPod waits until the Deployment wants no Pods, checks the options that the previous Pod sees, and ends that.
func (o *operator) endPod(when, sees string) {
	o.Helper()
	for deadline := time.Now().Add(time.Minute); o.replicas() > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			o.Fatalf("%s, the operator is not stopped", when)
		}
	}
	time.Sleep(2 * stopPause) // it waits for the Pod
	o.wantOptions(when, sees)
	if err := o.applier.client.CoreV1().Pods("default").Delete(o.Context(), "operator-1", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		o.Fatal(err)
	}
}

// TestOperatorSeesOnlyItsModules installs an operator, gives it other options, upgrades it, and rolls it back.
func TestOperatorSeesOnlyItsModules(t *testing.T) {
	o := &operator{newOwnedCluster(t), t.TempDir()}
	if err := o.apply("1.0.0", "one", "moin"); err != nil {
		t.Fatal(err)
	}
	o.startPod()
	o.wantOptions("after the install", "greeting: moin\nsize: 1\n")
	if err := o.apply("1.0.0", "one", "hallo"); err != nil { // the Pod does not end
		t.Fatal(err)
	}
	o.wantOptions("with other options", "greeting: hallo\nsize: 1\n")
	if err := Remember(o.memory); err != nil {
		t.Fatal(err)
	}

	done := make(chan error, 1)
	go func() { done <- o.apply("2.0.0", "two", "servus") }()
	o.endPod("before the upgrade", "greeting: hallo\nsize: 1\n")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	o.wantOptions("after the upgrade", "greeting: servus\nsize: 1\n")
	if n := o.replicas(); n != 1 {
		t.Errorf("the Deployment wants %d Pods", n)
	}

	o.startPod()
	edit := []byte(`{"data":{"hello":"greeting: servus\nsize: 2\n"}}`)
	if _, err := o.applier.client.CoreV1().ConfigMaps("default").Patch(t.Context(), "addon-operator", "application/merge-patch+json", edit, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, err := o.applier.restore(ctx, o.memory, "lights", &bytes.Buffer{})
		done <- err
	}()
	o.endPod("before it goes back", "greeting: servus\nsize: 2\n")
	for deadline := time.Now().Add(time.Minute); o.replicas() == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the operator that went back does not start")
		}
	}
	o.wantOptions("after it went back", "greeting: hallo\nsize: 2\n")
	cancel() // nobody makes the Deployment healthy
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
