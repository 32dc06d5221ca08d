// Package deploy_test tests the files shipped for running the server with the real programs.
package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/render"
)

// TestAPIServerAcceptsManifests applies them to a real API server, which checks every field, and makes one of the pods, which it
// holds against the namespace's label.
func TestAPIServerAcceptsManifests(t *testing.T) {
	objects, err := render.Build("kustomize")
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := kube.Connect(controlplane.ForTest(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	engine := kube.New(cluster, kube.Options{})
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

// overlay is the kustomization of docs/serve.md, on top of the manifests in their folder beside it.
func overlay(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../docs/serve.md")
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, block := range strings.Split(string(page), "```yaml\n")[1:] {
		if strings.Contains(block, "kind: Kustomization") {
			text, _, _ = strings.Cut(block, "```")
		}
	}
	if text == "" {
		t.Fatal("docs/serve.md shows no kustomization")
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "base"), os.DirFS("kustomize")); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"mine/kustomization.yaml": strings.ReplaceAll(text, "github.com/sealift/sealift/deploy/kustomize", "../base"),
		"mine/server.env":         "SEALIFT_TOKEN=secret\n",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "mine")
}

func TestDocumentedKustomizationApplies(t *testing.T) {
	objects, err := render.Build(overlay(t))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	var server *unstructured.Unstructured
	for _, o := range objects {
		names[o.GetKind()] = o.GetName()
		if o.GetKind() == "Deployment" {
			server = o
		}
	}
	text, err := server.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"image":"registry.example.com/sealift:1.0"`, `"configMapRef":{"name":"` + names["ConfigMap"] + `"}`, `"secretRef":{"name":"` + names["Secret"] + `"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

func TestSystemdAcceptsUnit(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "systemd/sealift-server.service").CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "sealift-server.service") && !strings.Contains(line, "is not executable") {
			t.Errorf("%v: %s", err, line)
		}
	}
}
