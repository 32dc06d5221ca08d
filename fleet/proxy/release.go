package proxy

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/release"
	"github.com/sealift/sealift/fleet/template"
	"github.com/sealift/sealift/helm/source"
)

// Conditions of a HelmReleaseProxy, and reasons of them.
const (
	clusterAvailable = "ClusterAvailable"
	releaseReady     = "HelmReleaseReady"

	preparing      = "PreparingToHelmInstall"
	operationFails = "HelmInstallOrUpgradeFailed"
	removalFails   = "HelmReleaseDeletionFailed"
	readFails      = "HelmReleaseGetFailed"
	conflict       = "Conflict"
)

// answerTimeout is how long a cluster may take to answer.
const answerTimeout = 30 * time.Second

// ReleaseReconciler keeps the release of a HelmReleaseProxy.
type ReleaseReconciler struct {
	client.Client
	clusters *clusters
	options  Options
}

// attempt is one reconcile of a HelmReleaseProxy.
type attempt struct {
	*ReleaseReconciler
	hrp  *caaph.HelmReleaseProxy
	base *caaph.HelmReleaseProxy // as it was read
}

// Reconcile looks at one HelmReleaseProxy.
func (r *ReleaseReconciler) Reconcile(ctx context.Context, q ctrl.Request) (ctrl.Result, error) {
	hrp := new(caaph.HelmReleaseProxy)
	if err := r.Get(ctx, q.NamespacedName, hrp); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, paused := hrp.Annotations[caaph.Paused]; paused {
		return ctrl.Result{}, nil
	}
	cluster, err := r.clusters.get(ctx, hrp.Namespace, hrp.Spec.ClusterRef.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	if cluster != nil && summary(cluster).Paused {
		return ctrl.Result{}, nil
	}
	if hrp.DeletionTimestamp.IsZero() {
		if err := withFinalizer(ctx, r.Client, hrp, caaph.ReleaseFinalizer); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	a := &attempt{ReleaseReconciler: r, hrp: hrp, base: hrp.DeepCopyObject().(*caaph.HelmReleaseProxy)}
	if !hrp.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, a.remove(ctx, cluster)
	}
	return ctrl.Result{RequeueAfter: r.options.Resync}, a.keep(ctx, cluster)
}

// reach finds out how to reach the cluster and the chart. The reason is that of condition ClusterAvailable.
func (a *attempt) reach(ctx context.Context, cluster *unstructured.Unstructured) (t Target, reason string, err error) {
	t = Target{Proxy: a.hrp, Name: release.Name(*a.hrp)}
	switch reference := a.hrp.Spec.ClusterRef; {
	case reference.Namespace != "" && reference.Namespace != a.hrp.Namespace:
		return t, "GetClusterFailed", fmt.Errorf("cluster %s/%s is in another namespace", reference.Namespace, reference.Name)
	case cluster == nil:
		return t, "GetClusterFailed", fmt.Errorf("there is no cluster %s in namespace %s", reference.Name, a.hrp.Namespace)
	case waits(cluster):
		return t, "NotAvailable", errors.New("the control plane of the cluster is not initialized")
	}
	if t.Cluster, err = kubeconfig(ctx, a.clusters.direct, a.hrp.Namespace, cluster.GetName()); err != nil {
		return t, "GetKubeconfigFailed", err
	}
	return t, "", nil
}

// access reads what the chart's repository wants.
func (a *attempt) access(ctx context.Context) (access source.Access, reason string, err error) {
	if err := credentials(ctx, a.clusters.direct, a.hrp, a.options.SecretNamespaces, &access); err != nil {
		return access, "GetCredentialsFailed", err
	}
	if err := authority(ctx, a.clusters.direct, a.hrp, a.options.SecretNamespaces, &access); err != nil {
		return access, "GetCACertificateFailed", err
	}
	return access, "", nil
}

// keep brings the release to its desired state.
func (a *attempt) keep(ctx context.Context, cluster *unstructured.Unstructured) error {
	t, reason, err := a.reach(ctx, cluster)
	if err != nil {
		return a.unavailable(ctx, reason, err)
	}
	if t.Access, reason, err = a.access(ctx); err != nil {
		return a.unavailable(ctx, reason, err)
	}
	if t.Mirrors, err = template.Mirrors(cluster.GetAnnotations(), nil); err != nil {
		return a.failed(ctx, operationFails, fmt.Errorf("cluster %s: %w", cluster.GetName(), err))
	}
	asking, cancel := context.WithTimeout(ctx, answerTimeout)
	has, err := a.options.Provider.Read(asking, t)
	cancel()
	if err != nil {
		// a cluster that refuses to answer this is there; one that does not answer is not
		if answered := new(apierrors.StatusError); errors.As(err, &answered) {
			return a.failed(ctx, readFails, err)
		}
		return a.unavailable(ctx, readFails, err)
	}
	if release.Foreign(*a.hrp, has) {
		return a.failed(ctx, conflict, fmt.Errorf("release %s in namespace %s of the cluster belongs to somebody else: choose another releaseName, or set options.takeOwnership to take it over",
			t.Name, a.hrp.Spec.ReleaseNamespace))
	}
	has, err = a.operate(ctx, t, has)
	if err != nil {
		return a.failed(ctx, operationFails, err)
	}
	return a.done(ctx, t, has)
}

// operate does what the release needs, if anything.
func (a *attempt) operate(ctx context.Context, t Target, has release.Installed) (release.Installed, error) {
	version, err := a.options.Provider.Version(ctx, t)
	if err != nil {
		return has, err
	}
	do, err := release.Operate(*a.hrp, has, version)
	if do == release.None && has.Status == "deployed" && has.Mirrors != mirrorsID(t.Mirrors) && !once(a.hrp) {
		do = release.Upgrade
	}
	if err != nil || do == release.None {
		return has, err
	}
	if condition(a.hrp.Status.Conditions, releaseReady).Reason == "" { // it may take long
		err := a.write(ctx, false, available(), release.Condition{Type: releaseReady, Status: "False", Reason: preparing})
		if err != nil {
			return has, err
		}
	}
	return a.options.Provider.Run(ctx, t, do)
}

// once says whether a release was installed and is left alone since.
func once(hrp *caaph.HelmReleaseProxy) bool {
	return hrp.Spec.ReconcileStrategy == caaph.InstallOnce && hrp.Annotations[caaph.Installed] == "true"
}

// done records what the cluster has. What the spec lacks goes first: it is a new generation.
func (a *attempt) done(ctx context.Context, t Target, has release.Installed) error {
	status := a.hrp.Status
	release.Record(a.hrp, has, t.Name)
	recorded := a.hrp.Status
	if !reflect.DeepEqual(a.hrp.Annotations, a.base.Annotations) || a.hrp.Spec.ReleaseName != a.base.Spec.ReleaseName {
		a.hrp.Status = status
		if err := a.Patch(ctx, a.hrp, client.MergeFrom(a.base)); err != nil {
			return client.IgnoreNotFound(err)
		}
		a.base = a.hrp.DeepCopyObject().(*caaph.HelmReleaseProxy)
	}
	a.hrp.Status.Status, a.hrp.Status.Revision = recorded.Status, recorded.Revision
	ready := release.Report(has)
	if ready.Status == "True" && a.hrp.Spec.Options.Upgrade.Recreate {
		ready.Message = "options.upgrade.recreate has no effect: Helm no longer recreates Pods"
	}
	return a.write(ctx, true, available(), ready)
}

func available() release.Condition {
	return release.Condition{Type: clusterAvailable, Status: "True", Reason: "Available"}
}

// unavailable reports a cluster that cannot be worked on. What is known of its release stays.
func (a *attempt) unavailable(ctx context.Context, reason string, err error) error {
	no := release.Condition{Type: clusterAvailable, Status: "False", Reason: reason, Message: err.Error()}
	if failed := a.write(ctx, false, no); failed != nil {
		return failed
	}
	return err
}

// failed reports a release that is not in its desired state. The generation counts as observed.
func (a *attempt) failed(ctx context.Context, reason string, err error) error {
	no := release.Condition{Type: releaseReady, Status: "False", Reason: reason, Message: err.Error()}
	if failed := a.write(ctx, true, available(), no); failed != nil {
		return failed
	}
	return err
}

// write writes conditions and their summary. The generation is observed when the release was brought to it, or could not
// be.
func (a *attempt) write(ctx context.Context, observed bool, list ...release.Condition) error {
	status := &a.hrp.Status
	set(&status.Conditions, a.hrp.Generation, list...)
	set(&status.Conditions, a.hrp.Generation,
		release.Summary(condition(status.Conditions, clusterAvailable), condition(status.Conditions, releaseReady)))
	if observed {
		status.ObservedGeneration = a.hrp.Generation
	}
	if reflect.DeepEqual(a.base.Status, *status) {
		return nil
	}
	err := a.Status().Patch(ctx, a.hrp, client.MergeFrom(a.base))
	a.base = a.hrp.DeepCopyObject().(*caaph.HelmReleaseProxy)
	return client.IgnoreNotFound(err)
}

// remove uninstalls the release, and drops the finalizer (C-22).
func (a *attempt) remove(ctx context.Context, cluster *unstructured.Unstructured) error {
	var found *release.Cluster
	if cluster != nil {
		c := summary(cluster)
		found = &c
	}
	if release.Remove(*a.hrp, found, true) == release.Forget {
		return withoutFinalizer(ctx, a.Client, a.hrp, caaph.ReleaseFinalizer)
	}
	t, reason, err := a.reach(ctx, cluster)
	var has release.Installed
	if err == nil {
		asking, cancel := context.WithTimeout(ctx, answerTimeout)
		has, err = a.options.Provider.Read(asking, t)
		cancel()
		reason = readFails
	}
	if err != nil {
		if release.Remove(*a.hrp, found, false) == release.Forget {
			return withoutFinalizer(ctx, a.Client, a.hrp, caaph.ReleaseFinalizer)
		}
		return a.unavailable(ctx, reason, err)
	}
	if has.Status != "" && !release.Foreign(*a.hrp, has) {
		if err := a.options.Provider.Remove(ctx, t); err != nil {
			return a.failed(ctx, removalFails, err)
		}
	}
	return withoutFinalizer(ctx, a.Client, a.hrp, caaph.ReleaseFinalizer)
}
