package control

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/ocm"
)

// leaseReader has the Lease of one cluster.
type leaseReader struct {
	client.Reader

	lease coordinationv1.Lease
}

func (r *leaseReader) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	r.lease.DeepCopyInto(o.(*coordinationv1.Lease))
	return nil
}

// TestRestartedHubWaitsForRenewals starts a hub long after the last renewal. Only the time in which the hub could have seen a
// renewal counts.
func TestRestartedHubWaitsForRenewals(t *testing.T) {
	const limit = 5 * time.Minute
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	leases := &leaseReader{lease: coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: ocm.ClusterLease, Namespace: "rome"}}}
	renew := func() { leases.lease.Spec.RenewTime = &metav1.MicroTime{Time: now} }
	c := &controllers{now: func() time.Time { return now }, reader: inventory.Reader{Reader: leases}}
	cluster := &ocm.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "rome"}}
	look := func(what string, known bool, again time.Duration) {
		t.Helper()
		got, err := c.heartbeat(t.Context(), cluster)
		if unknown := meta.IsStatusConditionPresentAndEqual(cluster.Status.Conditions, inventory.Available, metav1.ConditionUnknown); err != nil || unknown == known || got != again {
			t.Fatalf("%s: unknown is %v, the next look is in %v, want %v: %v", what, unknown, got, again, err)
		}
	}
	renew()
	now = now.Add(time.Hour)
	look("the hub starts after an hour", true, limit)
	now = now.Add(limit - time.Second)
	look("the time is almost over", true, time.Second)

	renew()
	leases.lease.Spec.RenewTime.Time = now.Add(-time.Second)
	c.heartbeats().Update(event.UpdateEvent{ObjectOld: &leases.lease, ObjectNew: &leases.lease})
	now = now.Add(limit - time.Second)
	look("it was renewed meanwhile", true, time.Second)
	now = now.Add(time.Second)
	look("it is not renewed any more", false, 0)

	cluster.Status.Conditions = nil
	c.renewals.forgetAll()
	look("the hub was away again", true, limit)
	now = now.Add(limit)
	look("the cluster is still silent", false, 0)
}

// TestClusterIsAcceptedAndDenied uses a cluster that was never accepted, then one that is, and one that is not any more.
func TestClusterIsAcceptedAndDenied(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	c := &controllers{now: func() time.Time { return now }}
	cluster := &ocm.ManagedCluster{}
	for _, tt := range []struct {
		accepts, known bool
		reason         string
	}{{false, false, ""}, {true, true, "HubClusterAdminAccepted"}, {false, true, "HubClusterAdminDenied"}, {true, true, "HubClusterAdminAccepted"}} {
		cluster.Spec.HubAcceptsClient = tt.accepts
		known, reason := c.accept(cluster), ""
		if state := meta.FindStatusCondition(cluster.Status.Conditions, inventory.Accepted); state != nil {
			reason = state.Reason
			if (state.Status == metav1.ConditionTrue) != tt.accepts {
				t.Errorf("the condition is %+v", state)
			}
		}
		if known != tt.known || reason != tt.reason {
			t.Errorf("got %v %s, want %v %s", known, reason, tt.known, tt.reason)
		}
	}
	cluster = &ocm.ManagedCluster{}
	if c.taint(cluster); len(cluster.Spec.Taints) != 1 || cluster.Spec.Taints[0].Key != unreachable {
		t.Errorf("a cluster that never reported has taints %+v", cluster.Spec.Taints)
	}
}

// TestClocksOfClusters uses a cluster whose clock is ahead, then behind, then right, and that is silent in the end.
func TestClocksOfClusters(t *testing.T) {
	const limit = 5 * time.Minute
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	leases := &leaseReader{lease: coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: ocm.ClusterLease, Namespace: "rome"}}}
	leases.lease.Spec.RenewTime = &metav1.MicroTime{Time: now.Add(-time.Hour)}
	c := &controllers{now: func() time.Time { return now }, reader: inventory.Reader{Reader: leases}}
	cluster := &ocm.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "rome"}}
	look := func(what, clock string, known bool) {
		t.Helper()
		_, err := c.heartbeat(t.Context(), cluster)
		got := ""
		if state := meta.FindStatusCondition(cluster.Status.Conditions, "ManagedClusterConditionClockSynced"); state != nil {
			got = string(state.Status)
		}
		if unknown := meta.IsStatusConditionPresentAndEqual(cluster.Status.Conditions, inventory.Available, metav1.ConditionUnknown); err != nil || got != clock || unknown == known {
			t.Errorf("%s: the clock is %q, want %q; the cluster is unknown: %v; %v", what, got, clock, unknown, err)
		}
	}
	c.heartbeats().Create(event.CreateEvent{Object: &leases.lease})
	look("an old renewal says nothing of the clock", "", true)
	c.heartbeats().Update(event.UpdateEvent{ObjectOld: &leases.lease, ObjectNew: &leases.lease})
	look("it is only listed again", "", true)
	for offset, clock := range map[time.Duration]string{24 * time.Hour: "False", limit: "False", -limit: "False", limit - time.Second: "True", time.Second - limit: "True"} {
		now = now.Add(time.Minute)
		before := leases.lease.DeepCopy()
		leases.lease.Spec.RenewTime = &metav1.MicroTime{Time: now.Add(offset)}
		c.heartbeats().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: &leases.lease})
		look(offset.String(), clock, true)
	}
	before := leases.lease.DeepCopy()
	leases.lease.Spec.RenewTime = &metav1.MicroTime{Time: now.Add(24 * time.Hour)}
	c.heartbeats().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: &leases.lease})
	now = now.Add(limit)
	look("a cluster whose clock is ahead is silent", "False", false)
}
