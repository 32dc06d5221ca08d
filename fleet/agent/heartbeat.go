package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/deploy"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/status"
	"github.com/sealift/sealift/internal/poll"
)

// mapper knows the kinds that an agent uses on the hub.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(ocm.ClusterVersion.WithKind("ManagedCluster"), meta.RESTScopeRoot)
	m.Add(ocm.WorkVersion.WithKind("ManifestWork"), meta.RESTScopeNamespace)
	m.Add(ocm.AddOnVersion.WithKind("ManagedClusterAddOn"), meta.RESTScopeNamespace)
	return m
}

// beat renews the Lease of the cluster, and reports the cluster and its add-ons, until ctx ends. An unreachable hub is retried.
func (a *agent) beat(ctx context.Context) error {
	cfg, http := a.cluster.Config()
	leases, err := coordinationv1client.NewForConfigAndClient(cfg, http)
	if err != nil {
		return err
	}
	poll.Repeat(ctx, func(ctx context.Context) time.Duration {
		pause := cmp.Or(a.Heartbeat, time.Minute)
		cluster := &ocm.ManagedCluster{}
		err := a.hub.Get(ctx, types.NamespacedName{Name: a.Cluster}, cluster)
		if err == nil && a.Heartbeat == 0 && cluster.Spec.LeaseDurationSeconds > 0 {
			pause = time.Duration(cluster.Spec.LeaseDurationSeconds) * time.Second
		}
		if err == nil { // one that fails stops none of the others
			err = errors.Join(a.renew(ctx, leases), a.report(ctx, cluster), a.reportAddOns(ctx, leases))
		}
		if err != nil {
			if ctx.Err() == nil {
				a.Log.WarnContext(ctx, "the hub was not told all of the cluster", "error", err)
			}
			pause = min(pause, 10*time.Second)
		}
		return pause
	})
	return ctx.Err()
}

// renew renews the Lease of the cluster on the hub.
func (a *agent) renew(ctx context.Context, client coordinationv1client.LeasesGetter) error {
	leases := client.Leases(a.Cluster)
	now := metav1.NewMicroTime(time.Now())
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"renewTime": now}})
	if err != nil {
		return err
	}
	_, err = leases.Patch(ctx, ocm.ClusterLease, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: ocm.ClusterLease, Labels: map[string]string{ocm.ClusterLabel: a.Cluster}},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new(ocm.ClusterLease), RenewTime: &now},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("renew the Lease of the cluster: %w", err)
	}
	return nil
}

// report writes the status of the cluster if it changed.
func (a *agent) report(ctx context.Context, before *ocm.ManagedCluster) error {
	after, ok := before.DeepCopyObject().(*ocm.ManagedCluster)
	if !ok {
		return nil
	}
	version, err := a.local.Version(ctx)
	status, reason, message := "True", "ManagedClusterAvailable", "Managed cluster is available"
	if err != nil {
		status, reason, message = "False", "ManagedClusterKubeAPIServerUnavailable", "The API server of the cluster does not answer: "+err.Error()
	} else {
		after.Status.Version.Kubernetes = version
		if after.Status.ClusterClaims, err = a.claims(ctx, version); err != nil {
			return err
		}
		if after.Status.Capacity, after.Status.Allocatable, err = a.resources(ctx); err != nil {
			return err
		}
		after.Status.Capacity = withOthers(after.Status.Capacity, before.Status.Capacity)
	}
	set(&after.Status.Conditions, "ManagedClusterJoined", "True", "ManagedClusterJoined", "Managed cluster joined")
	set(&after.Status.Conditions, "ManagedClusterConditionAvailable", status, reason, message)
	a.reportRefusals(&after.Status.Conditions)
	if err := a.patchStatus(ctx, before, after); !apierrors.IsConflict(err) { // the hub wrote in the meantime; the next heartbeat reports it
		return err
	}
	return nil
}

// patchStatus writes what changed in a status, if anything did.
func (a *agent) patchStatus(ctx context.Context, before, after client.Object) error {
	x, err := json.Marshal(before)
	if err != nil {
		return err
	}
	y, err := json.Marshal(after)
	if err != nil || string(x) == string(y) {
		return err
	}
	return a.hub.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

func set(conditions *[]metav1.Condition, kind, status, reason, message string) {
	meta.SetStatusCondition(conditions, metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message})
}

// Names of claims that come first.
const kubeVersionClaim = "kubeversion.open-cluster-management.io"

var reserved = []string{"id.k8s.io", kubeVersionClaim, "platform.open-cluster-management.io", "product.open-cluster-management.io"}

// maxClaims bounds the claims that users add.
const maxClaims = 20

// clusterProperties are claims in the kind of the Cluster Inventory API.
var clusterProperties = schema.GroupVersionResource{Group: "about.k8s.io", Version: "v1alpha1", Resource: "clusterproperties"}

// claims returns the ClusterClaims of the cluster, and its ClusterProperties. Of two with one name the property counts.
func (a *agent) claims(ctx context.Context, version string) ([]ocm.ClusterClaim, error) {
	resource := schema.GroupVersionResource{Group: ocm.ClusterVersion.Group, Version: "v1alpha1", Resource: "clusterclaims"}
	list, err := a.local.Dynamic().Resource(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the claims of the cluster: %w", err)
	}
	properties, err := a.local.Dynamic().Resource(clusterProperties).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) { // the cluster, or the agent, has no such kind
		properties, err = &unstructured.UnstructuredList{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the properties of the cluster: %w", err)
	}
	return claimsOf(version, append(list.Items, properties.Items...)), nil
}

// claimsOf makes the claims of the version, of ClusterClaims and of ClusterProperties. The last one of a name counts.
func claimsOf(version string, objects []unstructured.Unstructured) []ocm.ClusterClaim {
	known := map[string]string{kubeVersionClaim: version}
	for _, o := range objects {
		if _, hidden := o.GetLabels()["open-cluster-management.io/spoke-only"]; hidden {
			continue
		}
		spec, _ := o.Object["spec"].(map[string]any)
		if value, _ := spec["value"].(string); value != "" {
			known[o.GetName()] = value
		}
	}
	var first, others []ocm.ClusterClaim
	for name, value := range known {
		if slices.Contains(reserved, name) {
			first = append(first, ocm.ClusterClaim{Name: name, Value: value})
		} else {
			others = append(others, ocm.ClusterClaim{Name: name, Value: value})
		}
	}
	byName := func(x, y ocm.ClusterClaim) int { return strings.Compare(x.Name, y.Name) }
	slices.SortFunc(first, byName)
	slices.SortFunc(others, byName)
	return append(first, others[:min(maxClaims, len(others))]...)
}

// resources sums up the nodes. Of cordoned ones nothing is allocatable.
func (a *agent) resources(ctx context.Context) (capacity, allocatable map[string]resource.Quantity, err error) {
	nodes, err := a.reader.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, nil, fmt.Errorf("read the nodes of the cluster: %w", err)
	}
	capacity, allocatable = resourcesOf(nodes.Items)
	return capacity, allocatable, nil
}

// withOthers adds the capacities that nodes do not have: other programs report those.
func withOthers(capacity, before map[string]resource.Quantity) map[string]resource.Quantity {
	if before == nil {
		return capacity
	}
	all := maps.Clone(before)
	maps.Copy(all, capacity)
	return all
}

func resourcesOf(nodes []corev1.Node) (capacity, allocatable map[string]resource.Quantity) {
	add := func(sum map[string]resource.Quantity, list corev1.ResourceList) map[string]resource.Quantity {
		for name, q := range list {
			if sum == nil {
				sum = make(map[string]resource.Quantity)
			}
			total := sum[string(name)]
			total.Add(q)
			sum[string(name)] = total
		}
		return sum
	}
	for _, n := range nodes {
		capacity = add(capacity, n.Status.Capacity)
		if !n.Spec.Unschedulable {
			allocatable = add(allocatable, n.Status.Allocatable)
		}
	}
	return capacity, allocatable
}

// reportAddOns checks the Leases of add-ons whose health nobody else reports (O-36).
func (a *agent) reportAddOns(ctx context.Context, onHub coordinationv1client.LeasesGetter) error {
	var list ocm.List[ocm.ManagedClusterAddOn]
	if err := a.hub.List(ctx, &list, client.InNamespace(a.Cluster)); err != nil {
		return fmt.Errorf("read the add-ons of the cluster: %w", err)
	}
	var errs []error
	for i := range list.Items {
		if err := a.reportAddOn(ctx, onHub, &list.Items[i]); err != nil {
			errs = append(errs, fmt.Errorf("report add-on %s: %w", list.Items[i].Name, err))
		}
	}
	return errors.Join(errs...)
}

// reportAddOn looks for the Lease of an add-on on the cluster, and then in the cluster's namespace on the hub, where add-ons of old renew theirs.
func (a *agent) reportAddOn(ctx context.Context, onHub coordinationv1client.LeasesGetter, before *ocm.ManagedClusterAddOn) error {
	if before.Status.HealthCheck.Mode == ocm.HealthCustomized || !before.DeletionTimestamp.IsZero() {
		return nil
	}
	if host := before.Annotations[deploy.HostingCluster]; host != "" && host != a.Cluster {
		return nil // its Lease is on that cluster, and the hub checks it
	}
	after, ok := before.DeepCopyObject().(*ocm.ManagedClusterAddOn)
	if !ok {
		return nil
	}
	namespace := namespaceOf(before)
	lease, err := a.reader.CoordinationV1().Leases(namespace).Get(ctx, before.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease, err = onHub.Leases(a.Cluster).Get(ctx, before.Name, metav1.GetOptions{})
	}
	var c status.Condition
	switch {
	case apierrors.IsNotFound(err):
		c = status.NoLease(before.Name, namespace, "the cluster")
	case err != nil:
		return err
	default:
		c = status.Leased(before.Name, lease.Spec.RenewTime != nil && time.Since(lease.Spec.RenewTime.Time) <= status.LeaseGrace)
	}
	set(&after.Status.Conditions, c.Type, c.Status, c.Reason, c.Message)
	if err := client.IgnoreNotFound(a.patchStatus(ctx, before, after)); !apierrors.IsConflict(err) {
		return err
	}
	return nil
}
