package hub_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sealift/sealift/fleet/hub"
	"github.com/sealift/sealift/internal/testing/controlplane"
)

// TestWebhooksStayWithHubThatDecides starts a second hub, which points the API server to itself, and ends it.
func TestWebhooksStayWithHubThatDecides(t *testing.T) {
	t.Parallel()
	cfg := controlplane.ForTest(t)
	const duration = 3 * time.Second
	client := runHub(t, cfg, hub.Options{LeaseDuration: duration})
	eventually := func(what string, done func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(200 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
		}
	}
	leases := client.Resource(schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}).Namespace(hub.DefaultNamespace)
	eventually("no hub decides", func() bool {
		lease, err := leases.Get(t.Context(), "sealift-fleet-hub", metav1.GetOptions{})
		if err != nil {
			return false
		}
		holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
		return holder != ""
	})
	address := func() string {
		live, err := client.Resource(definitions).Get(t.Context(), "clustermanagementaddons.addon.open-cluster-management.io", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		url, _, _ := unstructured.NestedString(live.Object, "spec", "conversion", "webhook", "clientConfig", "url")
		return url
	}
	first := address()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- hub.Run(ctx, hub.Options{
			Config: cfg, Webhook: hub.Webhook{Listen: "127.0.0.1:0"}, LeaseDuration: duration,
			Controllers: []hub.Controller{func(context.Context, *hub.Hub) error {
				close(ready)
				return nil
			}},
		})
	}()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("the second hub ended with %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the second hub ended with %v", err)
	}
	eventually("the API server asks a hub that is gone", func() bool { return address() == first })
	eventually("the API server reads no add-ons in v1beta1", func() bool {
		_, err := client.Resource(addOns("v1beta1", "clustermanagementaddons")).List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
}
