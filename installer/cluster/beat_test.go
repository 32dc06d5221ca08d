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
)

// TestCanceledLeaseReadProvesNothing reads the lease of a node that nobody renews. Only a check that lasts its whole time shows that
// the node is off.
func TestCanceledLeaseReadProvesNothing(t *testing.T) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: corev1.NamespaceNodeLease, ResourceVersion: "7"}}
	r := &NodeLeftovers{Node: "b", client: fake.NewClientset(lease)}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		beats, err := r.reports(t.Context())
		if took := time.Since(began); err != nil || beats || took < beatTime || took%beatTime != 0 { // a slow host waits a multiple
			t.Errorf("after %s: %t, %v", took, beats, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(beatTime/2, cancel)
		if _, err := r.reports(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a canceled look: %v", err)
		}
	})
}
