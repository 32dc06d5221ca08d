// Package accesstest lets tests run hubs with the rights of package access and no others.
package accesstest

import (
	"cmp"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/fleet/access"
	"github.com/sealift/sealift/kube"
)

// Config gives a hub its rights, and returns the configuration with which to run it. The namespaces are made.
func Config(t testing.TB, admin *rest.Config, h access.Hub) *rest.Config {
	t.Helper()
	var objects []*unstructured.Unstructured
	for _, ns := range h.SecretNamespaces {
		objects = append(objects, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": ns}}})
	}
	for _, o := range h.Objects() {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			t.Fatal(err)
		}
		if content["rules"] == nil {
			delete(content, "rules")
		}
		objects = append(objects, &unstructured.Unstructured{Object: content})
	}
	cluster, err := kube.Connect(admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	set := kube.Set{Name: "rights-of-a-hub", Namespace: metav1.NamespaceDefault}
	if _, err := kube.New(cluster, kube.Options{}).Apply(t.Context(), set, objects, kube.ApplyOptions{FailFast: true}); err != nil {
		t.Fatalf("give a hub its rights: %v", err)
	}
	cfg := rest.CopyConfig(admin)
	cfg.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + h.Namespace + ":" + cmp.Or(h.Account, access.Account), Groups: []string{"system:serviceaccounts", "system:authenticated"},
	}
	return cfg
}
