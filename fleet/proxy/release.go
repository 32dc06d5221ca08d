package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/chartplan"
	"github.com/sealift/sealift/fleet/ocm"
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

// A release keeps one of a few workers that all tenants share, so what its cluster and its chart can take is bounded.
const (
	// answerTimeout is how long a cluster may take to show a release. One request of an operation may take longestAnswer: an API server
	// gives up after a minute.
	answerTimeout, longestAnswer = 30 * time.Second, 90 * time.Second
	// longestOperation bounds an operation, whatever timeout its options have.
	longestOperation = 2 * time.Hour
)

// ReleaseReconciler keeps the release of a HelmReleaseProxy.
type ReleaseReconciler struct {
	client.Client
	clusters *clusters
	options  Options
}

// clusterOf returns the cluster of a release. Hubs share the releases by their clusters.
func (r *ReleaseReconciler) clusterOf(ctx context.Context, q ctrl.Request) string {
	hrp := new(caaph.HelmReleaseProxy)
	if err := r.Get(ctx, q.NamespacedName, hrp); err != nil {
		return "" // it is gone
	}
	return hrp.Namespace + "/" + hrp.Spec.ClusterRef.Name
}

// all returns the requests of all releases.
func (r *ReleaseReconciler) all(ctx context.Context) (requests []ctrl.Request) {
	var list caaph.HelmReleaseProxyList
	if err := r.List(ctx, &list); err != nil {
		return nil // the cache is closed: the hub ends
	}
	for i := range list.Items {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// place is where a HelmReleaseProxy is reconciled: a hub, or the cluster of the release.
type place interface {
	// reach returns how to reach the cluster. The reason of an error is that of condition ClusterAvailable.
	reach(ctx context.Context) (cluster *rest.Config, reason string, err error)
	// access returns what may be used to fetch the chart.
	access(ctx context.Context) (access source.Access, reason string, err error)
	// mirrors are where the cluster finds images.
	mirrors() ([]ocm.ImageMirror, error)
	// patch and status write what changed since base. release lets the object go.
	patch(ctx context.Context, hrp, base *caaph.HelmReleaseProxy) error
	status(ctx context.Context, hrp, base *caaph.HelmReleaseProxy) error
	release(ctx context.Context, hrp *caaph.HelmReleaseProxy) error
}

// attempt is one reconcile of a HelmReleaseProxy.
type attempt struct {
	place
	provider Provider
	hrp      *caaph.HelmReleaseProxy
	base     *caaph.HelmReleaseProxy // as read
}

// Reconcile reconciles one HelmReleaseProxy.
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
	carried, err := r.carried(ctx, hrp)
	if err != nil {
		return ctrl.Result{}, err
	}
	a := &attempt{
		place: &onHub{ReleaseReconciler: r, hrp: hrp, cluster: cluster, carried: carried}, provider: r.options.Provider,
		hrp: hrp, base: hrp.DeepCopyObject().(*caaph.HelmReleaseProxy),
	}
	if carried {
		return ctrl.Result{RequeueAfter: r.options.Resync}, a.waitForParcel(ctx)
	}
	if !hrp.DeletionTimestamp.IsZero() {
		var found *chartplan.Cluster
		if cluster != nil {
			found = new(summary(cluster))
		}
		return ctrl.Result{}, a.remove(ctx, found)
	}
	return ctrl.Result{RequeueAfter: r.options.Resync}, a.keep(ctx)
}

// target reaches the cluster.
func (a *attempt) target(ctx context.Context) (t Target, reason string, err error) {
	t = Target{Proxy: a.hrp, Name: chartplan.Name(*a.hrp)}
	t.Cluster, reason, err = a.reach(ctx)
	return t, reason, err
}

// keep brings the release to its desired state.
func (a *attempt) keep(ctx context.Context) error {
	t, reason, err := a.target(ctx)
	if err != nil {
		return a.unavailable(ctx, reason, err)
	}
	if !chartplan.Once(*a.hrp) { // a release that is left alone needs no chart, whose repository may be gone
		if t.Access, reason, err = a.access(ctx); err != nil {
			return a.unavailable(ctx, reason, err)
		}
		if t.Mirrors, err = a.mirrors(); err != nil {
			return a.failed(ctx, operationFails, fmt.Errorf("cluster %s: %w", a.hrp.Spec.ClusterRef.Name, err))
		}
	}
	has, err := a.read(ctx, t)
	if err != nil {
		return a.unread(ctx, err)
	}
	if chartplan.Foreign(*a.hrp, has) {
		return a.foreign(ctx, t)
	}
	has, err = a.operate(ctx, t, has)
	if err != nil {
		return a.unsuccessful(ctx, t, operationFails, err)
	}
	return a.done(ctx, t, has)
}

// read reads the state of the release.
func (a *attempt) read(ctx context.Context, t Target) (chartplan.Installed, error) {
	asking, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return a.provider.Read(asking, t)
}

// bounded returns a context for one operation. The timeout of its options is for each of its waits: for hooks before and after, and for
// what was applied or rolled back.
func (a *attempt) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	wait := 10 * time.Minute
	if t := a.hrp.Spec.Options.Timeout; t != nil {
		wait = max(0, min(t.Duration, longestOperation))
	}
	longest := min(3*wait+5*time.Minute, longestOperation)
	return context.WithTimeoutCause(ctx, longest, fmt.Errorf("it was not done after %s", longest))
}

// unread reports a release that cannot be read. A cluster that refuses to answer exists; one that does not answer may not.
func (a *attempt) unread(ctx context.Context, err error) error {
	if refused(err) {
		return a.failed(ctx, readFails, err)
	}
	return a.unavailable(ctx, readFails, err)
}

// refused reports whether the cluster itself has refused a request. What stands before an API server that is away may answer, too.
func refused(err error) bool {
	answered := new(apierrors.StatusError)
	return errors.As(err, &answered) && answered.ErrStatus.Code < http.StatusInternalServerError
}

func (a *attempt) foreign(ctx context.Context, t Target) error {
	return a.failed(ctx, conflict, fmt.Errorf("release %s in namespace %s of the cluster has another owner: choose another releaseName, or set options.takeOwnership to take it over",
		t.Name, a.hrp.Spec.ReleaseNamespace))
}

// needs returns what the release needs.
func (a *attempt) needs(ctx context.Context, t Target, has chartplan.Installed) (chartplan.Operation, error) {
	if chartplan.Once(*a.hrp) {
		return chartplan.None, nil
	}
	version, err := a.provider.Version(ctx, t, has.Version)
	if err != nil {
		return chartplan.None, err
	}
	do, err := chartplan.Operate(*a.hrp, has, version)
	if do == chartplan.None && has.Status == "deployed" && has.Mirrors != mirrorsID(t.Mirrors) {
		do = chartplan.Upgrade
	}
	return do, err
}

// operate does what the release needs, if anything.
func (a *attempt) operate(ctx context.Context, t Target, has chartplan.Installed) (chartplan.Installed, error) {
	do, err := a.needs(ctx, t, has)
	if err == nil && do == chartplan.None && a.newVersion(has) {
		do = chartplan.Upgrade
	}
	if err != nil || do == chartplan.None {
		return has, err
	}
	if condition(a.hrp.Status.Conditions, releaseReady).Reason == "" { // it may take long
		err := a.write(ctx, false, available(), chartplan.Condition{Type: releaseReady, Status: "False", Reason: preparing})
		if err != nil {
			return has, err
		}
	}
	bounded, cancel := a.bounded(ctx)
	defer cancel()
	return a.provider.Run(bounded, t, do)
}

// newVersion reports whether the proxy may have got another version since, whose chart calls itself as the former one.
func (a *attempt) newVersion(has chartplan.Installed) bool {
	version, exact := chartplan.Exact(*a.hrp)
	return exact && !chartplan.SameVersion(has.Version, version) && a.hrp.Status.ObservedGeneration != a.hrp.Generation && !chartplan.Once(*a.hrp)
}

// done records the state of the cluster. What the spec lacks goes first: it is a new generation.
func (a *attempt) done(ctx context.Context, t Target, has chartplan.Installed) error {
	status := a.hrp.Status
	chartplan.Record(a.hrp, has, t.Name)
	recorded := a.hrp.Status
	if !reflect.DeepEqual(a.hrp.Annotations, a.base.Annotations) || a.hrp.Spec.ReleaseName != a.base.Spec.ReleaseName {
		a.hrp.Status = status
		if err := a.patch(ctx, a.hrp, a.base); err != nil {
			return client.IgnoreNotFound(err)
		}
		a.base = a.hrp.DeepCopyObject().(*caaph.HelmReleaseProxy)
	}
	a.hrp.Status.Status, a.hrp.Status.Revision = recorded.Status, recorded.Revision
	ready := chartplan.Report(has)
	if ready.Status == "True" && a.hrp.Spec.Options.Upgrade.Recreate {
		ready.Message = "options.upgrade.recreate has no effect: Helm no longer recreates Pods"
	}
	return a.write(ctx, true, available(), ready)
}

func available() chartplan.Condition {
	return chartplan.Condition{Type: clusterAvailable, Status: "True", Reason: "Available"}
}

// unavailable reports a cluster that cannot be reached, with further conditions. The known state of its release stays.
func (a *attempt) unavailable(ctx context.Context, reason string, err error, also ...chartplan.Condition) error {
	no := chartplan.Condition{Type: clusterAvailable, Status: "False", Reason: reason, Message: err.Error()}
	if failed := a.write(ctx, false, append(also, no)...); failed != nil {
		return failed
	}
	return err
}

// failed reports a release that is not in its desired state. The generation counts as observed.
func (a *attempt) failed(ctx context.Context, reason string, err error) error {
	no := chartplan.Condition{Type: releaseReady, Status: "False", Reason: reason, Message: err.Error()}
	if failed := a.write(ctx, true, available(), no); failed != nil {
		return failed
	}
	return err
}

// unsuccessful reports an operation that failed. If the cluster has gone away meanwhile, the release has not failed: its state is unknown
// until the cluster answers again.
func (a *attempt) unsuccessful(ctx context.Context, t Target, reason string, err error) error {
	if _, gone := a.read(ctx, t); gone != nil && !refused(gone) {
		return a.unavailable(ctx, readFails, fmt.Errorf("%w; before: %w", gone, err))
	}
	return a.failed(ctx, reason, err)
}

// write writes conditions and their summary. The generation is observed when the release was brought to it, or could not
// be.
func (a *attempt) write(ctx context.Context, observed bool, list ...chartplan.Condition) error {
	status := &a.hrp.Status
	set(&status.Conditions, a.hrp.Generation, list...)
	set(&status.Conditions, a.hrp.Generation,
		chartplan.Summary(condition(status.Conditions, clusterAvailable), condition(status.Conditions, releaseReady)))
	if observed {
		status.ObservedGeneration = a.hrp.Generation
	}
	if reflect.DeepEqual(a.base.Status, *status) {
		return nil
	}
	err := a.status(ctx, a.hrp, a.base)
	a.base = a.hrp.DeepCopyObject().(*caaph.HelmReleaseProxy)
	return client.IgnoreNotFound(err)
}

// remove uninstalls the release, and drops the finalizer (C-22).
func (a *attempt) remove(ctx context.Context, found *chartplan.Cluster) error {
	if chartplan.Remove(*a.hrp, found, true) == chartplan.Forget {
		return a.release(ctx, a.hrp)
	}
	t, reason, err := a.target(ctx)
	var has chartplan.Installed
	if err == nil {
		has, err = a.read(ctx, t)
		reason = readFails
	}
	if err != nil {
		if chartplan.Remove(*a.hrp, found, false) == chartplan.Forget {
			return a.release(ctx, a.hrp)
		}
		var also []chartplan.Condition
		if reason == readFails {
			also = append(also, chartplan.Condition{Type: releaseReady, Status: "False", Reason: readFails, Message: err.Error()})
		}
		return a.unavailable(ctx, reason, err, also...)
	}
	if has.Status != "" && chartplan.Owns(*a.hrp, has) {
		bounded, cancel := a.bounded(ctx)
		err := a.provider.Remove(bounded, t)
		cancel()
		if err != nil {
			return a.unsuccessful(ctx, t, removalFails, err)
		}
	}
	// others may also have finalizers on the object
	if err := a.write(ctx, true, available(), chartplan.Report(chartplan.Installed{})); err != nil {
		return err
	}
	return a.release(ctx, a.hrp)
}
