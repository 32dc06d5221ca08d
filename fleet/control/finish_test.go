package control_test

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sealift/sealift/fleet/ocm"
)

const finishing = `
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: finishing, namespace: oslo}
spec:
  deleteOption: {ttlSecondsAfterFinished: 2}
  manifestConfigs:
  - resourceIdentifier: {resource: configmaps, namespace: default, name: finishing}
    conditionRules: [{type: CEL, condition: Complete, celExpressions: ["object.data.state == 'done'"]}]
  workload:
    manifests:
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: finishing, namespace: default}, data: {state: done}}
`

// TestCompleteWorkIsDeleted uses a work that requests deletion two seconds after it is complete.
func TestCompleteWorkIsDeleted(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "oslo")
	g.apply(finishing)
	there := func() bool { return g.exists("oslo", configMaps, "default", "finishing") != nil }
	g.eventually("the work is applied", func() (why string) {
		if !there() {
			why = "the ConfigMap is missing"
		}
		return why
	})
	g.eventually("the work is deleted with its object", func() (why string) {
		err := g.client.Get(t.Context(), types.NamespacedName{Namespace: "oslo", Name: "finishing"}, new(ocm.ManifestWork))
		if !apierrors.IsNotFound(err) || there() {
			why = fmt.Sprintf("the ConfigMap exists: %v, the work: %v", there(), err)
		}
		return why
	})
}
