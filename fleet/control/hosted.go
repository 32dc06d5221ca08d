package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/deploy"
	"github.com/sealift/sealift/fleet/hub"
	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/status"
)

// hostedFor is the index of works by their add-on on another cluster. hostedBy is the index of add-ons by the cluster that
// hosts their agents.
const hostedFor, hostedBy = "hostedFor", "hostedBy"

// indexHosted creates the indexes of hosted works and add-ons.
func indexHosted(ctx context.Context, h *hub.Hub) error {
	err := h.GetFieldIndexer().IndexField(ctx, &ocm.ManifestWork{}, hostedFor, func(o client.Object) []string {
		labels := o.GetLabels()
		if labels[ocm.AddOnNamespaceLabel] == "" {
			return nil
		}
		return []string{labels[ocm.AddOnNamespaceLabel] + "/" + labels[ocm.AddOnLabel]}
	})
	if err == nil {
		err = h.GetFieldIndexer().IndexField(ctx, &ocm.ManifestWork{}, leaseFor, leaseKey)
	}
	if err != nil {
		return err
	}
	return h.GetFieldIndexer().IndexField(ctx, &ocm.ManagedClusterAddOn{}, hostedBy, func(o client.Object) []string {
		if host := o.GetAnnotations()[deploy.HostingCluster]; host != "" {
			return []string{host}
		}
		return nil
	})
}

// An agent that another cluster hosts renews its Lease there. The agent of the add-on's own cluster does not see that Lease, and the agent
// of the hosting cluster may write nothing in another cluster's namespace. So the hub gives the hosting cluster a work that only reads the
// Lease, and evaluates its feedback.

// leaseAddOn and leaseCluster are labels of such a work. It has no label of an add-on's works, because the add-on's manager deletes
// unknown ones.
const leaseAddOn, leaseCluster = "fleet.sealift.dev/lease-of-addon", "fleet.sealift.dev/lease-of-cluster"

// leaseFor is the index of these works by the add-on whose Lease they read.
const leaseFor = "leaseFor"

func leaseKey(o client.Object) []string {
	if labels := o.GetLabels(); labels[leaseAddOn] != "" {
		return []string{labels[leaseCluster] + "/" + labels[leaseAddOn]}
	}
	return nil
}

// renewTime names the value that a hosting cluster reports.
const renewTime = "RenewTime"

// hostedLease reads the Lease of an add-on whose health is that Lease and whose agent another cluster hosts. It returns condition
// Available, which is zero for other add-ons, and when to look again. rendered reports whether the hub renders the add-on, whose health
// then follows from its works.
func (r *clusterAddOns) hostedLease(ctx context.Context, p place, rendered bool) (available status.Condition, again time.Duration, err error) {
	var had ocm.List[ocm.ManifestWork]
	if err := r.List(ctx, &had, client.MatchingFields{leaseFor: p.addOn.Namespace + "/" + p.addOn.Name}); err != nil {
		return available, 0, err
	}
	a, host := p.addOn, p.addOn.Annotations[deploy.HostingCluster]
	next := deploy.Step{}
	hosted := !rendered && a.Status.HealthCheck.Mode != ocm.HealthCustomized && host != "" && host != a.Namespace && a.DeletionTimestamp.IsZero()
	if hosted && p.hosting != nil && p.hosting.DeletionTimestamp.IsZero() {
		next.Apply = append(next.Apply, leaseWork(a, host))
	}
	for _, w := range had.Items {
		if len(next.Apply) == 0 || w.Namespace != host || w.Name != next.Apply[0].Name {
			next.Delete = append(next.Delete, w)
		}
	}
	written, err := r.write(ctx, had.Items, next)
	if err != nil || !hosted {
		return available, 0, err
	}
	unknown := func(reason, message string) status.Condition {
		return status.Condition{Type: "Available", Status: "Unknown", Reason: reason, Message: message}
	}
	if p.hosting == nil {
		return unknown("ManagedClusterAddOnLeaseNotFound", fmt.Sprintf("The status of %s add-on is unknown: cluster %s, which hosts it, is not a managed cluster of the hub", a.Name, host)), 0, nil
	}
	if state := meta.FindStatusCondition(p.hosting.Status.Conditions, inventory.Available); state != nil && state.Status == metav1.ConditionUnknown {
		return unknown(state.Reason, fmt.Sprintf("cluster %s, which hosts %s add-on: %s", host, a.Name, state.Message)), 0, nil
	}
	renewed, found := renewedAt(written)
	if !found { // old add-ons renew it on the hub, where it is not watched
		var lease coordinationv1.Lease
		if err := r.direct.Get(ctx, client.ObjectKeyFromObject(a), &lease); client.IgnoreNotFound(err) != nil {
			return available, 0, err
		} else if err == nil && lease.Spec.RenewTime != nil {
			renewed, found = lease.Spec.RenewTime.Time, true
		}
	}
	if !found {
		return status.NoLease(a.Name, installNamespace(a), "cluster "+host+", which hosts it"), registrationRetry, nil
	}
	if again = renewed.Add(status.LeaseGrace).Sub(r.now()); again <= 0 {
		return status.Leased(a.Name, false), registrationRetry, nil
	}
	return status.Leased(a.Name, true), again, nil
}

// installNamespace is the namespace of an add-on's agent.
func installNamespace(a *ocm.ManagedClusterAddOn) string {
	return cmp.Or(a.Status.Namespace, a.Spec.InstallNamespace, ocm.DefaultInstallNamespace)
}

// leaseWork makes the work that reads the Lease of an add-on on the cluster that hosts its agent.
func leaseWork(a *ocm.ManagedClusterAddOn, host string) ocm.ManifestWork {
	lease := ocm.ResourceIdentifier{Group: "coordination.k8s.io", Resource: "leases", Namespace: installNamespace(a), Name: a.Name}
	w := ocm.ManifestWork{
		TypeMeta: metav1.TypeMeta{APIVersion: ocm.WorkVersion.String(), Kind: "ManifestWork"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "addon-" + a.Name + "-lease-hosting-" + a.Namespace, Namespace: host,
			Labels: map[string]string{leaseAddOn: a.Name, leaseCluster: a.Namespace},
		},
	}
	w.Spec.Workload.Manifests = []map[string]any{{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": lease.Name, "namespace": lease.Namespace},
	}}
	w.Spec.DeleteOption = &ocm.DeleteOption{PropagationPolicy: ocm.DeleteOrphan}
	w.Spec.ManifestConfigs = []ocm.ManifestConfig{{
		ResourceIdentifier: lease, UpdateStrategy: &ocm.UpdateStrategy{Type: ocm.UpdateReadOnly},
		FeedbackRules: []ocm.FeedbackRule{{Type: ocm.JSONPaths, JSONPaths: []ocm.JSONPath{{Name: renewTime, Path: ".spec.renewTime"}}}},
	}}
	return w
}

// renewedAt returns when a Lease was renewed, as its cluster reports it. Without a time, it was never renewed.
func renewedAt(works []ocm.ManifestWork) (at time.Time, found bool) {
	for _, w := range works {
		for _, m := range w.Status.ResourceStatus.Manifests {
			if !meta.IsStatusConditionTrue(m.Conditions, "Available") {
				continue
			}
			found = true
			for _, v := range m.StatusFeedback.Values {
				if v.Name == renewTime && v.FieldValue.String != nil {
					at, _ = time.Parse(time.RFC3339, *v.FieldValue.String)
				}
			}
		}
	}
	return at, found
}

// unwatched reports an add-on without a manager on this hub. Its health is still determined by its Lease.
func (r *clusterAddOns) unwatched(ctx context.Context, a *ocm.ManagedClusterAddOn, available status.Condition) error {
	if available == (status.Condition{}) {
		return nil
	}
	after := copyOf(a)
	r.set(&after.Status.Conditions, available.Type, available.Status, available.Reason, available.Message)
	return client.IgnoreNotFound(r.patchStatus(ctx, a, after))
}

// cleanLeases deletes the works that read the Lease of an add-on that is gone.
func (r *clusterAddOns) cleanLeases(ctx context.Context, a *ocm.ManagedClusterAddOn) error {
	var works ocm.List[ocm.ManifestWork]
	errs := []error{r.List(ctx, &works, client.MatchingFields{leaseFor: a.Namespace + "/" + a.Name})}
	for i := range works.Items {
		errs = append(errs, r.deleteWork(ctx, &works.Items[i]))
	}
	return errors.Join(errs...)
}
