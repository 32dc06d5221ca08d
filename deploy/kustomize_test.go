// Package deploy_test holds what is shipped for running the server against the real things.
package deploy_test

import (
	"os/exec"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/testgrid/controlplane"
)

// TestTheManifestsAreAccepted applies them to a real API server, which checks every field, and makes one of the pods, which it
// holds against the namespace's label.
func TestTheManifestsAreAccepted(t *testing.T) {
	objects, err := kube.Build("kustomize")
	if err != nil {
		t.Fatal(err)
	}
	engine, err := kube.New(controlplane.ForTest(t), kube.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Apply(t.Context(), kube.Set{Name: "server", Namespace: "default"}, objects, kube.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		kinds[o.GetKind()] = o
	}
	for _, want := range []string{"Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget", "NetworkPolicy", "ServiceAccount", "ConfigMap", "Namespace"} {
		if kinds[want] == nil {
			t.Errorf("no %s among %v", want, kinds)
		}
	}
	template, _, err := unstructured.NestedMap(kinds["Deployment"].Object, "spec", "template")
	if err != nil {
		t.Fatal(err)
	}
	pod := &unstructured.Unstructured{Object: template}
	pod.SetAPIVersion("v1")
	pod.SetKind("Pod")
	pod.SetName("server")
	pod.SetNamespace("sealift")
	if _, err := engine.Apply(t.Context(), kube.Set{Name: "pod", Namespace: "default"}, []*unstructured.Unstructured{pod}, kube.ApplyOptions{}); err != nil {
		t.Error(err)
	}
}

func TestTheUnitIsUnderstood(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "systemd/sealift-server.service").CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "sealift-server.service") && !strings.Contains(line, "is not executable") {
			t.Errorf("%v: %s", err, line)
		}
	}
}
