package control

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/registration"
)

const (
	unreachable = "cluster.open-cluster-management.io/unreachable"
	unavailable = "cluster.open-cluster-management.io/unavailable"
	feature     = "feature.open-cluster-management.io/addon-"
)

// clusters reconciles ManagedClusters: namespace, set, Lease, taints, and labels with the health of add-ons.
func (c *controllers) clusters() error {
	b := builder.ControllerManagedBy(c.hub).Named("cluster").
		For(&ocm.ManagedCluster{}).
		Watches(&coordinationv1.Lease{}, handler.EnqueueRequestsFromMapFunc(clusterOf), builder.WithPredicates(c.heartbeats())).
		Watches(&ocm.ManagedClusterAddOn{}, soon(clusterOf))
	all := every[ocm.ManagedCluster](c.Client)
	return c.sharded(b, reconcile.Func(c.reconcileCluster), func(ctx context.Context, o client.Object) []reconcile.Request {
		// A hub gains clusters when it starts, and when its API server is reachable again.
		c.renewals.forgetAll()
		return all(ctx, o)
	})
}

// clusterOf asks for the cluster whose namespace an object is in.
func clusterOf(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: o.GetNamespace()}}}
}

// heartbeats passes a Lease that appears. Renewals arrive when the previous one is late: only then they change anything. All are
// noted.
func (c *controllers) heartbeats() predicate.Funcs {
	note := func(o client.Object, live bool) {
		if l, ok := o.(*coordinationv1.Lease); ok && l.Name == ocm.ClusterLease && l.Spec.RenewTime != nil {
			c.renewals.see(l.Namespace, renewal{at: l.Spec.RenewTime.Time, seen: c.now(), live: live})
		}
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			note(e.Object, false)
			return true
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*coordinationv1.Lease)
			after, _ := e.ObjectNew.(*coordinationv1.Lease)
			note(e.ObjectNew, ok && after != nil && !before.Spec.RenewTime.Equal(after.Spec.RenewTime))
			return !ok || before.Spec.RenewTime == nil || time.Since(before.Spec.RenewTime.Time) > time.Minute
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// renewals has the last renewal of each cluster's Lease, and when this hub first saw it. A cluster cannot renew its Lease while the API
// server is unreachable, so its silence counts only from when the hub could have seen a renewal. This buys correctness: a hub that
// starts does not make the fleet Unknown (TestRestartedHubWaitsForRenewals).
type renewals struct{ memory[string, renewal] }

// renewal is at a time of the cluster's clock, and was first seen at one of the hub's clock. A live one was seen when it came.
type renewal struct {
	at, seen time.Time
	live     bool
}

// see notes the last renewal of a cluster, and returns it as this hub first saw it.
func (r *renewals) see(cluster string, last renewal) (first renewal) {
	r.change(cluster, func(had renewal, found bool) (renewal, bool) {
		if !found || !had.at.Equal(last.at) {
			had = last
		}
		had.live = had.live || last.live
		first = had
		return had, true
	})
	return first
}

func (c *controllers) reconcileCluster(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var cluster ocm.ManagedCluster
	err := c.Get(ctx, req.NamespacedName, &cluster)
	if apierrors.IsNotFound(err) {
		c.renewals.forget(req.Name)
	}
	if err == nil && !cluster.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, c.dropFinalizers(ctx, &cluster)
	}
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !cluster.Spec.HubAcceptsClient {
		if err := c.lockOut(ctx, cluster.Name); err != nil {
			return reconcile.Result{}, err
		}
	}
	after := copyOf(&cluster)
	var again time.Duration
	if c.accept(after) {
		if err := c.namespace(ctx, cluster.Name); err != nil {
			return reconcile.Result{}, err
		}
		if again, err = c.heartbeat(ctx, after); err != nil {
			return reconcile.Result{}, err
		}
	}
	status := after.Status
	c.taint(after)
	if after.Labels[ocm.ClusterSetLabel] == "" {
		if after.Labels == nil {
			after.Labels = make(map[string]string)
		}
		after.Labels[ocm.ClusterSetLabel] = ocm.DefaultClusterSet
	}
	if err := c.labelHealth(ctx, after); err != nil {
		return reconcile.Result{}, err
	}
	after.Status = cluster.Status
	if err := c.patch(ctx, &cluster, after); err != nil {
		return reconcile.Result{}, err
	}
	before := copyOf(after)
	after.Status = status
	return reconcile.Result{RequeueAfter: again}, c.patchStatus(ctx, before, after)
}

// accept sets condition HubAcceptedManagedCluster, and reports whether the cluster was ever accepted. One that was not has no namespace and
// sends no heartbeats. No placement selects a cluster that is not accepted (observe), its works get no seals (sealWork), and its add-ons no
// certificates and no rights (certify, register).
func (c *controllers) accept(cluster *ocm.ManagedCluster) bool {
	known := meta.FindStatusCondition(cluster.Status.Conditions, inventory.Accepted) != nil
	switch {
	case cluster.Spec.HubAcceptsClient:
		c.set(&cluster.Status.Conditions, inventory.Accepted, "True", "HubClusterAdminAccepted", "Accepted by hub cluster admin")
	case known:
		c.set(&cluster.Status.Conditions, inventory.Accepted, "False", "HubClusterAdminDenied", "Denied by hub cluster admin")
	default:
		return false
	}
	return true
}

// lockOut takes the rights in its namespace from the agent of a cluster that the hub does not accept. The hub cannot give them back: the API
// server lets nobody bind a role without holding its rights. Joining the cluster again does. The binding is read before the
// cluster, so one that was made after the cluster was accepted again stays.
func (c *controllers) lockOut(ctx context.Context, name string) error {
	var binding rbacv1.RoleBinding
	err := c.direct.Get(ctx, types.NamespacedName{Namespace: name, Name: registration.Account}, &binding)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	var cluster ocm.ManagedCluster
	if err := c.direct.Get(ctx, types.NamespacedName{Name: name}, &cluster); err != nil || cluster.Spec.HubAcceptsClient {
		return client.IgnoreNotFound(err)
	}
	c.log.InfoContext(ctx, "the agent of a cluster that is not accepted loses its rights", "cluster", name)
	return client.IgnoreNotFound(c.Delete(ctx, &binding, client.Preconditions{UID: &binding.UID}))
}

// dropFinalizers removes the finalizers that a hub of Open Cluster Management set on a cluster. Nobody else does when that hub is gone.
func (c *controllers) dropFinalizers(ctx context.Context, cluster *ocm.ManagedCluster) error {
	after := copyOf(cluster)
	after.Finalizers = slices.DeleteFunc(after.Finalizers, func(f string) bool {
		return f == ocm.ClusterVersion.Group+"/api-resource-cleanup" || f == ocm.ClusterVersion.Group+"/resource-cleanup"
	})
	return client.IgnoreNotFound(c.patch(ctx, cluster, after))
}

// namespace makes the namespace of a cluster.
func (c *controllers) namespace(ctx context.Context, name string) error {
	err := c.Get(ctx, types.NamespacedName{Name: name}, &corev1.Namespace{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	labels := map[string]string{ocm.ClusterLabel: name}
	err = c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// heartbeat makes a cluster Unknown whose Lease is not renewed, and returns when to look again. What a carried cluster
// reported last holds until it reports again. A restarted hub gives each cluster its full time.
func (c *controllers) heartbeat(ctx context.Context, cluster *ocm.ManagedCluster) (again time.Duration, err error) {
	if inventory.IsCarried(cluster) {
		return 0, nil
	}
	seen, err := c.reader.LastSeen(ctx, cluster)
	if err != nil {
		return 0, err
	}
	seconds := cmp.Or(cluster.Spec.LeaseDurationSeconds, 60)
	limit := 5 * time.Duration(seconds) * time.Second
	last := c.renewals.see(cluster.Name, renewal{at: seen, seen: c.now()})
	if last.live {
		c.compareClocks(cluster, last, limit)
	}
	// the time of the renewal itself is that of the cluster's clock, which may be wrong
	if left := last.seen.Add(limit).Sub(c.now()); left > 0 {
		return left, nil
	}
	c.set(&cluster.Status.Conditions, inventory.Available, "Unknown", "ManagedClusterLeaseUpdateStopped", "Registration agent stopped updating its lease.")
	return 0, nil
}

// compareClocks reports whether a cluster's clock differs from the hub's by less than a limit.
func (c *controllers) compareClocks(cluster *ocm.ManagedCluster, last renewal, limit time.Duration) {
	const kind = "ManagedClusterConditionClockSynced"
	if last.seen.Sub(last.at).Abs() < limit {
		c.set(&cluster.Status.Conditions, kind, "True", "ManagedClusterClockSynced", "The clock of the managed cluster is synced with the hub.")
		return
	}
	c.set(&cluster.Status.Conditions, kind, "False", "ManagedClusterClockOutOfSync",
		"The clock of hub and agent is out of sync. Set the clock of the cluster; the hub's signatures may be refused there until then.")
}

// taint marks a cluster that no placement should select: one that is not accepted, and one that is unreachable, unless it is an
// occasional one.
func (c *controllers) taint(cluster *ocm.ManagedCluster) {
	want := ""
	switch state := meta.FindStatusCondition(cluster.Status.Conditions, inventory.Available); {
	case !cluster.Spec.HubAcceptsClient:
		want = unreachable
	case inventory.IsOccasional(cluster):
	case state == nil || state.Status == metav1.ConditionUnknown:
		want = unreachable
	case state.Status == metav1.ConditionFalse:
		want = unavailable
	}
	found := false
	taints := slices.DeleteFunc(slices.Clone(cluster.Spec.Taints), func(t ocm.Taint) bool {
		found = found || t.Key == want
		return (t.Key == unreachable || t.Key == unavailable) && t.Key != want
	})
	if want != "" && !found {
		taints = append(taints, ocm.Taint{Key: want, Effect: ocm.NoSelect, TimeAdded: metav1.NewTime(c.now()).Rfc3339Copy()})
	}
	cluster.Spec.Taints = taints
}

// labelHealth labels a cluster with the health of its add-ons (O-38, X-31).
func (c *controllers) labelHealth(ctx context.Context, cluster *ocm.ManagedCluster) error {
	var addOns ocm.List[ocm.ManagedClusterAddOn]
	if err := c.List(ctx, &addOns, client.InNamespace(cluster.Name), client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	labels := maps.Clone(cluster.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool { return strings.HasPrefix(key, feature) })
	known := meta.FindStatusCondition(cluster.Status.Conditions, inventory.Available) != nil
	for _, a := range addOns.Items {
		key := feature + a.Name
		if !known || !a.DeletionTimestamp.IsZero() || len(a.Name) > 63-len("addon-") {
			continue
		}
		if labels == nil {
			labels = make(map[string]string)
		}
		labels[key] = "unreachable"
		switch state := meta.FindStatusCondition(a.Status.Conditions, "Available"); {
		case state == nil:
		case state.Status == metav1.ConditionTrue:
			labels[key] = "available"
		case state.Status == metav1.ConditionFalse:
			labels[key] = "unhealthy"
		}
	}
	cluster.Labels = labels
	return nil
}
