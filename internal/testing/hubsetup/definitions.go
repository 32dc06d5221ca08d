package hubsetup

import (
	"testing"

	"github.com/sealift/sealift/fleet/crd"
	"github.com/sealift/sealift/kube"
)

// Define applies the definitions of a hub, for tests that run no hub, and waits until they are served. Nobody converts: a kind is served as it is stored.
func Define(t testing.TB, cluster *kube.Cluster) {
	t.Helper()
	definitions, err := crd.Hub(crd.Conversion{URL: "https://127.0.0.1:1/convert"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kube.New(cluster, kube.Options{}).Apply(t.Context(), kube.Set{Name: "definitions"}, definitions, kube.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
}
