package carry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/parcel"
	"github.com/sealift/sealift/fleet/proxy"
	"github.com/sealift/sealift/fleet/seal"
)

// Taken describes the content of a report.
type Taken struct {
	Cluster string    `json:"cluster"`
	Report  int64     `json:"report"`
	Time    time.Time `json:"time"`
	Parcel  int64     `json:"parcel"`
	// Works have the status of the report now. Behind are those that the hub has changed since.
	Works  []string `json:"works"`
	Behind []string `json:"behind,omitempty"`
	// Gone are works and releases that are deleted now.
	Gone []string `json:"gone,omitempty"`
	// Releases have the status of the report now: Helm releases, by namespace and name of their HelmReleaseProxies.
	Releases []string `json:"releases,omitempty"`
	// WentBack means that the cluster has seen later numbers than this hub has used: the hub was restored from a backup.
	WentBack bool `json:"wentBack,omitempty"`
}

// Take writes the content of a report into the status of works and of the cluster. Killed halfway, it resumes when it is called
// again. A report that was read before, or that is older, changes nothing.
func (h Hub) Take(ctx context.Context, file []byte, plan bool) (Taken, error) {
	r, _, err := parcel.ReadReport(file)
	if err != nil {
		return Taken{}, err
	}
	out := Taken{Cluster: r.Cluster, Report: r.Number, Time: r.Time, Parcel: r.Parcel, Works: []string{}}
	cluster := &ocm.ManagedCluster{}
	if err := h.Get(ctx, types.NamespacedName{Name: r.Cluster}, cluster); err != nil {
		return out, fmt.Errorf("read cluster %s of the report: %w", r.Cluster, err)
	}
	if r, err = verified(cluster, file); err != nil {
		return out, err
	}
	entry, err := h.Ledger.Of(ctx, r.Cluster)
	if err != nil {
		return out, err
	}
	if r.Number <= entry.Report {
		return out, &seal.Refusal{Reason: seal.Older, Message: fmt.Sprintf("report %d of cluster %s is not newer than report %d, which was already read", r.Number, r.Cluster, entry.Report)}
	}
	out.WentBack = r.Highest > entry.Sequence
	var list ocm.List[ocm.ManifestWork]
	if err := h.List(ctx, &list, client.InNamespace(r.Cluster)); err != nil {
		return out, fmt.Errorf("read the works of cluster %s: %w", r.Cluster, err)
	}
	var errs []error
	for i := range list.Items {
		errs = append(errs, h.takeWork(ctx, &list.Items[i], r, plan, &out))
	}
	for _, one := range r.Releases {
		errs = append(errs, h.takeRelease(ctx, r.Cluster, one, plan, &out))
	}
	if plan {
		return out, errors.Join(errs...)
	}
	errs = append(errs, h.takeCluster(ctx, cluster, r, out.WentBack, entry.Sequence))
	if err := errors.Join(errs...); err != nil {
		return out, fmt.Errorf("take report %d of cluster %s: %w; take it again", r.Number, r.Cluster, err)
	}
	return out, h.Ledger.Take(ctx, r.Cluster, r.Number)
}

// takeWork brings the status of a work up to date, or releases a work that is gone from the cluster.
func (h Hub) takeWork(ctx context.Context, w *ocm.ManifestWork, r parcel.Report, plan bool, out *Taken) error {
	if slices.Contains(r.Gone, w.Name) && !w.DeletionTimestamp.IsZero() {
		out.Gone = append(out.Gone, w.Name)
		if plan {
			return nil
		}
		left := slices.DeleteFunc(slices.Clone(w.Finalizers), func(f string) bool { return f == ocm.WorkFinalizer })
		return client.IgnoreNotFound(h.finalizers(ctx, w, left))
	}
	at := slices.IndexFunc(r.Works, func(one parcel.WorkReport) bool { return one.Name == w.Name })
	if at < 0 {
		return nil // the cluster has not heard of it
	}
	s, err := seal.Read(w.Annotations[seal.Annotation])
	if mark := r.Works[at].Seal; err != nil || s.Sequence != mark.Sequence || s.Digest != mark.Digest {
		out.Behind = append(out.Behind, w.Name)
		return nil //nolint:nilerr // a work without a seal is newer than the report, too
	}
	out.Works = append(out.Works, w.Name)
	if plan {
		return nil
	}
	status := r.Works[at].Status
	status.Conditions = slices.Clone(status.Conditions)
	for i := range status.Conditions {
		status.Conditions[i].ObservedGeneration = w.Generation // the content is the signed one
	}
	return h.patchStatus(ctx, w, map[string]any{"status": status})
}

// takeRelease brings the status of a Helm release up to date, or lets go of one that is gone from the cluster.
func (h Hub) takeRelease(ctx context.Context, cluster string, r parcel.ReleaseReport, plan bool, out *Taken) error {
	taken, err := h.releases().Take(ctx, cluster, r, plan)
	if err != nil {
		return fmt.Errorf("HelmReleaseProxy %s/%s: %w", r.Namespace, r.Name, err)
	}
	name := r.Namespace + "/" + r.Name
	switch taken {
	case proxy.Gone:
		out.Gone = append(out.Gone, name)
	case proxy.Behind:
		out.Behind = append(out.Behind, name)
	case proxy.Current:
		out.Releases = append(out.Releases, name)
	}
	return nil
}

func (h Hub) patchStatus(ctx context.Context, o client.Object, content map[string]any) error {
	patch, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return client.IgnoreNotFound(h.Status().Patch(ctx, o, client.RawPatch(types.MergePatchType, patch)))
}

// takeCluster records that the cluster was in contact when it reported.
func (h Hub) takeCluster(ctx context.Context, cluster *ocm.ManagedCluster, r parcel.Report, wentBack bool, used int64) error {
	conditions := slices.Clone(cluster.Status.Conditions)
	set := func(kind, status, reason, message string) {
		meta.SetStatusCondition(&conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(r.Time),
		})
	}
	set("ManagedClusterJoined", "True", "ManagedClusterJoined", "Managed cluster joined")
	set(inventory.Available, "True", "ManagedClusterReported", "The cluster reported on "+r.Time.Format(time.RFC3339))
	if wentBack {
		set(seal.Verified, "False", string(seal.HubWentBack), fmt.Sprintf(
			"the cluster has seen number %d, and this hub has used no more than %d: the hub was restored from a backup. If that is right, run: kubectl annotate managedcluster %s --overwrite %s=%d",
			r.Highest, used, cluster.Name, seal.ContinueAfter, r.Highest))
	} else {
		set(seal.Verified, "True", string(seal.Accepted), "All works are signed by the hub")
	}
	if err := h.renew(ctx, cluster.Name, r.Time); err != nil {
		return err
	}
	return h.patchStatus(ctx, cluster, map[string]any{"status": map[string]any{
		"conditions": conditions, "version": ocm.Version{Kubernetes: r.Version}, "clusterClaims": r.Claims, "capacity": r.Capacity, "allocatable": r.Allocatable,
	}})
}

// renew sets the Lease of the cluster to the time of the report.
func (h Hub) renew(ctx context.Context, cluster string, seen time.Time) error {
	at := metav1.NewMicroTime(seen)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: ocm.ClusterLease, Namespace: cluster, Labels: map[string]string{"open-cluster-management.io/cluster-name": cluster}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new(ocm.ClusterLease), RenewTime: &at},
	}
	err := h.Create(ctx, lease)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"renewTime": at}})
	if err != nil {
		return err
	}
	return h.Patch(ctx, lease, client.RawPatch(types.MergePatchType, patch))
}
