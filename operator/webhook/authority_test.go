package webhook

import (
	"bytes"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/kube"
)

// TestReplicasKeepOneAuthority uses two replicas. The Secret of their authority is deleted, and then replaced.
func TestReplicasKeepOneAuthority(t *testing.T) {
	cluster, err := kube.Connect(controlplane.ForTest(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	replica := func() *endpoint {
		return New(t.Context(), Options{Cluster: cluster, Namespace: "default", Admission: Endpoint{Service: "svc"}}).admission
	}
	one, two := replica(), replica()
	get := func(e *endpoint, known *authority) *authority {
		t.Helper()
		a, err := e.authority(t.Context(), known)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	first := get(one, nil)
	if !bytes.Equal(get(two, nil).pem, first.pem) {
		t.Error("replicas have an authority each")
	}
	secrets, err := cluster.Objects(t.Context(), kube.Ref{Version: "v1", Kind: "Secret", Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	lose := func() {
		t.Helper()
		if err := secrets.Delete(t.Context(), "svc"+authoritySuffix, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	lose()
	if !bytes.Equal(get(one, first).pem, first.pem) || !bytes.Equal(get(two, nil).pem, first.pem) {
		t.Error("a deleted Secret does not come back with the authority that is in use")
	}
	lose()
	second := get(two, nil) // has just been started
	if bytes.Equal(second.pem, first.pem) || !bytes.Equal(get(one, first).pem, second.pem) {
		t.Error("a replaced authority is not taken over")
	}
}
