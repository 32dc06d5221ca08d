package cluster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	_ "github.com/sealift/sealift/internal/testing/usualhost"
)

// TestCanceledLeaseReadProvesNothing reads the lease of a node that nobody renews. Only a check that lasts its whole time shows that
// the node is off.
func TestCanceledLeaseReadProvesNothing(t *testing.T) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: corev1.NamespaceNodeLease, ResourceVersion: "7"}}
	r := &NodeLeftovers{Node: "b", client: fake.NewClientset(lease)}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if beats, err := r.reports(t.Context()); err != nil || beats || time.Since(began) != beatTime {
			t.Errorf("after %s: %t, %v", time.Since(began), beats, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(beatTime/2, cancel)
		if _, err := r.reports(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a canceled look: %v", err)
		}
	})
}
