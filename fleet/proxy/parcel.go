package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/chartplan"
	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/parcel"
	"github.com/sealift/sealift/helm/release"
	"github.com/sealift/sealift/helm/source"
	"github.com/sealift/sealift/internal/sha256hex"
)

// A carried cluster installs its releases itself. The hub packs the HelmReleaseProxy with the chart, and reads the result from a report.

// packed is the annotation of a HelmReleaseProxy that was packed: the cluster may have its release.
const packed = "fleet.sealift.dev/packed"

// namedAfter is the annotation of a HelmReleaseProxy to which Take wrote the name of its release. Its value is the generation before:
// the next one differs only in the name.
const namedAfter = "fleet.sealift.dev/named-after-generation"

// home returns the only namespace whose HelmReleaseProxies go into the parcels of a cluster.
func home(c *ocm.ManagedCluster) string {
	return cmp.Or(c.Annotations[inventory.ClusterNamespace], c.Name)
}

// belongs reports whether a release goes into the parcels of a cluster. Everyone can name any cluster in a HelmReleaseProxy, so its
// namespace counts, too.
func belongs(hrp *caaph.HelmReleaseProxy, c *ocm.ManagedCluster) bool {
	reference := hrp.Spec.ClusterRef
	return c.Annotations[inventory.Carried] == "true" && reference.Name == c.Name && hrp.Namespace == home(c) &&
		(reference.Namespace == "" || reference.Namespace == hrp.Namespace)
}

// carried reports whether the cluster of a release is reached by parcels. Its ManagedCluster has the name of its Cluster.
func (r *ReleaseReconciler) carried(ctx context.Context, hrp *caaph.HelmReleaseProxy) (bool, error) {
	var c ocm.ManagedCluster
	if err := r.Get(ctx, client.ObjectKey{Name: hrp.Spec.ClusterRef.Name}, &c); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return belongs(hrp, &c), nil
}

// waitForParcel leaves a release to the next parcel.
func (a *attempt) waitForParcel(ctx context.Context) error {
	switch {
	case !a.hrp.DeletionTimestamp.IsZero():
		if a.hrp.Annotations[packed] == "" {
			return a.release(ctx, a.hrp)
		}
		return nil // the finalizer is removed with a report
	case a.hrp.Status.ObservedGeneration == a.hrp.Generation:
		return nil
	}
	return a.write(ctx, false, chartplan.Condition{Type: clusterAvailable, Status: "False", Reason: "WaitsForParcel",
		Message: "the cluster has no connection: run 'sealift fleet pack " + a.hrp.Spec.ClusterRef.Name + "', and take its report"})
}

// Carrier packs the releases of carried clusters, and reads their results.
type Carrier struct {
	Client client.Client // with the kinds of package caaph
	// Schemes and SecretNamespaces are as in Options.
	Schemes, SecretNamespaces []string
}

// Releases returns the releases of a cluster, and their charts by the paths that these have in a parcel. Without the kinds of
// charts there are none. A release that is installed once, and whose chart is gone since, is left out: the cluster keeps it. Errors of
// these are in left.
func (c Carrier) Releases(ctx context.Context, cluster string) (list []parcel.Release, charts map[string][]byte, left []error, err error) {
	var of ocm.ManagedCluster
	if err := c.Client.Get(ctx, client.ObjectKey{Name: cluster}, &of); err != nil {
		return nil, nil, nil, err
	}
	var all caaph.HelmReleaseProxyList
	if err := c.Client.List(ctx, &all, client.InNamespace(home(&of))); err != nil {
		if meta.IsNoMatchError(err) {
			err = nil
		}
		return nil, nil, nil, err
	}
	slices.SortFunc(all.Items, func(a, b caaph.HelmReleaseProxy) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	charts = make(map[string][]byte)
	found := &clusters{reader: c.Client, direct: c.Client, mapper: c.Client.RESTMapper()}
	for _, hrp := range all.Items {
		if !belongs(&hrp, &of) {
			continue
		}
		hrp.ManagedFields = nil
		one := parcel.Release{Proxy: hrp}
		if hrp.DeletionTimestamp.IsZero() {
			content, err := c.chart(ctx, found, &one)
			if errors.Is(err, errPaused) {
				continue
			}
			if err != nil {
				err = fmt.Errorf("HelmReleaseProxy %s/%s: %w", hrp.Namespace, hrp.Name, err)
				if ctx.Err() != nil || !chartplan.Once(hrp) {
					return nil, nil, nil, err
				}
				left = append(left, err)
				continue
			}
			charts[parcel.ChartFile(one.Chart)] = content
		} else if hrp.Annotations[packed] == "" {
			continue
		}
		list = append(list, one)
	}
	return list, charts, left, nil
}

// errPaused means that a release stays unchanged.
var errPaused = errors.New("paused")

// chart fetches the chart of a release, and completes the release.
func (c Carrier) chart(ctx context.Context, found *clusters, one *parcel.Release) ([]byte, error) {
	hrp := &one.Proxy
	cluster, err := found.get(ctx, hrp.Namespace, hrp.Spec.ClusterRef.Name)
	if err != nil {
		return nil, err
	}
	if cluster == nil {
		return nil, fmt.Errorf("there is no cluster %s in namespace %s", hrp.Spec.ClusterRef.Name, hrp.Namespace)
	}
	if _, paused := hrp.Annotations[caaph.Paused]; paused || summary(cluster).Paused {
		return nil, errPaused
	}
	at := &onHub{ReleaseReconciler: &ReleaseReconciler{clusters: found, options: Options{SecretNamespaces: c.SecretNamespaces}}, hrp: hrp, cluster: cluster}
	if one.Mirrors, err = at.mirrors(); err != nil {
		return nil, err
	}
	access, _, err := at.access(ctx)
	if err != nil {
		return nil, err
	}
	access.Schemes = c.Schemes
	fetched, err := source.Fetch(ctx, source.Chart{Repository: hrp.Spec.RepoURL, Name: hrp.Spec.ChartName, Version: hrp.Spec.Version}, access)
	if err != nil {
		return nil, err
	}
	loaded, err := release.ReadArchive(fetched.Content)
	if err != nil {
		return nil, err
	}
	missing, err := loaded.Missing()
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 && hrp.Spec.Options.DependencyUpdate {
		return nil, fmt.Errorf("chart %s lacks chart %s, on which it depends, and parcels carry one archive for each release: package the chart with 'helm dependency update' and 'helm package'",
			loaded.Name, missing[0].Name)
	}
	one.Chart = sha256hex.Of(fetched.Content)
	return fetched.Content, nil
}

// Mark notes that the releases are packed: from now on the cluster may have them, and their objects stay until it reports that they
// are gone.
func (c Carrier) Mark(ctx context.Context, list []parcel.Release) error {
	for i := range list {
		hrp := &list[i].Proxy
		if hrp.Annotations[packed] != "" {
			continue
		}
		if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { return c.mark(ctx, hrp) }); err != nil {
			return fmt.Errorf("record that HelmReleaseProxy %s/%s is packed: %w", hrp.Namespace, hrp.Name, err)
		}
	}
	return nil
}

// mark notes that a release is packed. The parcel has the spec and the chart that were read together, so a newer spec is an error.
func (c Carrier) mark(ctx context.Context, read *caaph.HelmReleaseProxy) error {
	hrp := new(caaph.HelmReleaseProxy)
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(read), hrp); err != nil {
		return err
	}
	if hrp.UID != read.UID || hrp.Generation != read.Generation {
		return errors.New("it changed in the meantime; pack again")
	}
	base := hrp.DeepCopyObject().(*caaph.HelmReleaseProxy)
	if !slices.Contains(hrp.Finalizers, caaph.ReleaseFinalizer) {
		hrp.Finalizers = append(hrp.Finalizers, caaph.ReleaseFinalizer)
	}
	annotate(hrp, packed, "true")
	return c.Client.Patch(ctx, hrp, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
}

func annotate(hrp *caaph.HelmReleaseProxy, key, value string) {
	if hrp.Annotations == nil {
		hrp.Annotations = make(map[string]string)
	}
	hrp.Annotations[key] = value
}

// Taken is the hub's verdict on a report about a release.
type Taken string

// The verdicts.
const (
	Unknown Taken = "Unknown" // the hub has no such release
	Current Taken = "Current"
	Behind  Taken = "Behind" // the hub has changed the release since
	Gone    Taken = "Gone"   // from the cluster, and now from the hub
)

// Take writes a cluster's report of a release.
func (c Carrier) Take(ctx context.Context, cluster string, r parcel.ReleaseReport, plan bool) (taken Taken, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		taken, err = c.take(ctx, cluster, r, plan)
		return err
	})
	return taken, err
}

func (c Carrier) take(ctx context.Context, cluster string, r parcel.ReleaseReport, plan bool) (Taken, error) {
	var of ocm.ManagedCluster
	if err := c.Client.Get(ctx, client.ObjectKey{Name: cluster}, &of); err != nil {
		return Unknown, err
	}
	hrp := new(caaph.HelmReleaseProxy)
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Name}, hrp)
	if meta.IsNoMatchError(err) || err == nil && (hrp.UID != r.UID || !belongs(hrp, &of)) {
		return Unknown, nil // another one has its name now, or it belongs to another cluster
	}
	if err != nil {
		return Unknown, client.IgnoreNotFound(err)
	}
	taken := Current
	switch {
	case r.Removed && hrp.DeletionTimestamp.IsZero(), !r.Removed && !sameState(hrp, r):
		taken = Behind
	case r.Removed:
		taken = Gone
	}
	switch {
	case plan, r.Removed && taken == Behind:
		return taken, nil
	case taken == Gone:
		return taken, withoutFinalizer(ctx, c.Client, hrp, caaph.ReleaseFinalizer)
	}
	return taken, client.IgnoreNotFound(c.write(ctx, hrp, r, taken))
}

// sameState reports whether a report is about the hub's current desired state. The parcel of the report may be from before the hub knew
// the name of the release.
func sameState(hrp *caaph.HelmReleaseProxy, r parcel.ReleaseReport) bool {
	return r.Generation == hrp.Generation || r.Generation+1 == hrp.Generation && r.ReleaseName == hrp.Spec.ReleaseName &&
		hrp.Annotations[namedAfter] == strconv.FormatInt(r.Generation, 10)
}

// write writes a report into the object of its release. What the spec lacks goes first: it is a new generation.
func (c Carrier) write(ctx context.Context, hrp *caaph.HelmReleaseProxy, r parcel.ReleaseReport, taken Taken) error {
	base := hrp.DeepCopyObject().(*caaph.HelmReleaseProxy)
	for _, key := range []string{caaph.Installed, caaph.GeneratedName} {
		if r.Annotations[key] == "true" {
			annotate(hrp, key, "true") // a hub that was restored may have none yet
		}
	}
	if hrp.Spec.ReleaseName == "" && r.ReleaseName != "" {
		hrp.Spec.ReleaseName = r.ReleaseName
		annotate(hrp, namedAfter, strconv.FormatInt(hrp.Generation, 10))
	}
	// no other change may intervene: the next generation must differ only in the name
	if err := c.Client.Patch(ctx, hrp, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	base = hrp.DeepCopyObject().(*caaph.HelmReleaseProxy)
	if hrp.Status = r.Status; taken == Current {
		hrp.Status.ObservedGeneration = hrp.Generation
	}
	for i := range hrp.Status.Conditions {
		hrp.Status.Conditions[i].ObservedGeneration = hrp.Status.ObservedGeneration
	}
	return c.Client.Status().Patch(ctx, hrp, client.MergeFrom(base))
}
