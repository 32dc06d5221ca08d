package controlplane

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/render"
)

// Apply applies the objects of a text, in its order, and takes over their fields from every other manager.
func Apply(t testing.TB, cluster *kube.Cluster, text string) {
	t.Helper()
	objects, err := render.Decode(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		ref := kube.RefOf(object)
		of, err := cluster.Objects(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := of.Apply(t.Context(), ref.Name, object, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
			t.Fatal(err)
		}
	}
}
