package health_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/kube/health"
)

func ExampleOf() {
	deployment := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "web", "generation": int64(2)},
		"spec":     map[string]any{"replicas": int64(3)},
		"status":   map[string]any{"observedGeneration": int64(2), "replicas": int64(3), "updatedReplicas": int64(3), "availableReplicas": int64(1)},
	}}
	fmt.Println(health.Of(deployment))
	// Output:
	// waiting Available: 1/3
}

func ExampleFailing() {
	node := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "web"},
		"status": map[string]any{"conditions": []any{
			map[string]any{"type": "Ready", "status": "False", "reason": "NoAddress", "message": "the pool is empty"},
		}},
	}}
	condition, failing := health.Failing(node)
	fmt.Println(condition, failing)
	// Output:
	// condition Ready is False: NoAddress: the pool is empty true
}
