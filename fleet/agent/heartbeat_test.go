package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestClusterReportsItsResources(t *testing.T) {
	var nodes []corev1.Node
	readYAML(t, `
- {status: {capacity: {cpu: 4, memory: 8Gi}, allocatable: {cpu: 3500m, memory: 7Gi}}}
- {status: {capacity: {cpu: 2, memory: 4Gi}, allocatable: {cpu: 2, memory: 3Gi}}}
- {spec: {unschedulable: true}, status: {capacity: {cpu: 8, gpu: 1}, allocatable: {cpu: 8, gpu: 1}}}`, &nodes)
	capacity, allocatable := resourcesOf(nodes)
	capacity = withOthers(capacity, map[string]resource.Quantity{"cpu": resource.MustParse("99"), "core_worker": resource.MustParse("6")})
	got, _ := json.Marshal([]any{capacity, allocatable, withOthers(nil, nil)})
	if want := `[{"core_worker":"6","cpu":"14","gpu":"1","memory":"12Gi"},{"cpu":"5500m","memory":"10Gi"},null]`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestClusterReportsItsClaims(t *testing.T) {
	var objects []unstructured.Unstructured
	claim := func(name, value string, labels map[string]string) {
		o := unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"value": value}}}
		o.SetName(name)
		o.SetLabels(labels)
		objects = append(objects, o)
	}
	claim("zone", "b", nil)
	claim("id.k8s.io", "rome", nil)
	claim("hidden", "x", map[string]string{"open-cluster-management.io/spoke-only": ""})
	claim("empty", "", nil)
	for i := range 25 {
		claim(fmt.Sprintf("many-%02d", i), "x", nil)
	}
	claim("zone", "a property", nil)
	claim("a", "b", nil)
	var got []string
	for _, c := range claimsOf("v1.37.2", objects) {
		if !strings.HasPrefix(c.Name, "many") {
			got = append(got, c.Name+"="+c.Value)
		}
	}
	if want := "id.k8s.io=rome kubeversion.open-cluster-management.io=v1.37.2 a=b"; strings.Join(got, " ") != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if n := len(claimsOf("v1.37.2", objects)); n != 22 {
		t.Errorf("%d claims, want two reserved ones and twenty others", n)
	}
	if got := claimsOf("v1.37.2", objects[:5:5]); got[len(got)-1].Value != "b" {
		t.Errorf("got %+v", got)
	}
	if got := claimsOf("v1.37.2", append(objects[:1:1], objects[29])); got[len(got)-1].Value != "a property" {
		t.Errorf("a property does not win over a claim: %+v", got)
	}
}
