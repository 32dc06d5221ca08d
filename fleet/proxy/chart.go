package proxy

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/chartplan"
)

// Reasons of condition HelmReleaseProxySpecsUpToDate.
const (
	creationFailed   = "HelmReleaseProxyCreationFailed"
	deletionFailed   = "HelmReleaseProxyDeletionFailed"
	reinstalling     = "HelmReleaseProxyReinstalling"
	valuesFailed     = "ValueParsingFailed"
	selectionFailed  = "ClusterSelectionFailed"
	specsUpdating    = "HelmReleaseProxySpecsUpdating"
	rolloutFailed    = "RolloutFailed"
	rolloutStopped   = "RolloutStopped"
	specsUpToDate    = "HelmReleaseProxySpecsUpToDate"
	proxiesReadyType = "HelmReleaseProxiesReady"
)

// ChartReconciler keeps the HelmReleaseProxies of a HelmChartProxy.
type ChartReconciler struct {
	client.Client
	clusters  *clusters
	namespace string // of the rollouts' ConfigMaps
	options   Options
	now       func() time.Time
}

// pass is one reconcile of a HelmChartProxy.
type pass struct {
	*ChartReconciler
	hcp      *caaph.HelmChartProxy
	selected []chartplan.Cluster
	releases []caaph.HelmReleaseProxy

	rendering time.Duration // how long values were rendered
	exceeded  error         // the limit that the template exceeded, or nil

	problem chartplan.Condition // the first one, which the condition shows
	errs    []error             // operations that are retried
	again   time.Duration
}

// Reconcile reconciles one HelmChartProxy. A failure of one cluster does not affect the others (C-27).
func (r *ChartReconciler) Reconcile(ctx context.Context, q ctrl.Request) (ctrl.Result, error) {
	hcp := new(caaph.HelmChartProxy)
	if err := r.Get(ctx, q.NamespacedName, hcp); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, paused := hcp.Annotations[caaph.Paused]; paused {
		return ctrl.Result{}, nil
	}
	hcp.Spec.Default() // objects that were written while no admission ran
	p := &pass{ChartReconciler: r, hcp: hcp, again: r.options.Resync}
	var err error
	if p.releases, err = r.releasesOf(ctx, hcp); err != nil {
		return ctrl.Result{}, err
	}
	if !hcp.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, p.remove(ctx)
	}
	if err := withFinalizer(ctx, r.Client, hcp, caaph.ChartFinalizer); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	hcp.Spec.Default() // the answer to the patch replaced it
	if err := p.keep(ctx); err != nil {
		return ctrl.Result{}, err
	}
	if err := p.report(ctx); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: p.again}, errors.Join(p.errs...)
}

// releasesOf lists the HelmReleaseProxies of a proxy.
func (r *ChartReconciler) releasesOf(ctx context.Context, hcp *caaph.HelmChartProxy) ([]caaph.HelmReleaseProxy, error) {
	var list caaph.HelmReleaseProxyList
	err := r.List(ctx, &list, client.InNamespace(hcp.Namespace), client.MatchingLabels{caaph.ChartLabel: hcp.Name})
	var ours []caaph.HelmReleaseProxy
	for _, o := range list.Items {
		if owner := metav1.GetControllerOf(&o); owner == nil || owner.UID == hcp.UID {
			ours = append(ours, o)
		}
	}
	return ours, err
}

// fail notes a problem. The first error of a pass is shown, before all work in progress; all are retried.
func (p *pass) fail(reason string, err error) {
	if len(p.errs) == 0 {
		p.problem = chartplan.Condition{Type: specsUpToDate, Status: "False", Reason: reason, Message: err.Error()}
	}
	p.errs = append(p.errs, err)
}

// show records work in progress.
func (p *pass) show(reason, message string) {
	if p.problem == (chartplan.Condition{}) {
		p.problem = chartplan.Condition{Type: specsUpToDate, Status: "False", Reason: reason, Message: message}
	}
}

// remove deletes the HelmReleaseProxies, and drops the finalizer when all are gone (C-13).
func (p *pass) remove(ctx context.Context) error {
	if len(p.releases) == 0 {
		if err := p.forgetRollout(ctx); err != nil {
			return err
		}
		return withoutFinalizer(ctx, p.Client, p.hcp, caaph.ChartFinalizer)
	}
	for _, r := range p.releases {
		if err := p.delete(ctx, r); err != nil {
			p.fail(deletionFailed, err)
		}
	}
	p.show(deletionFailed, fmt.Sprintf("%d HelmReleaseProxies are being deleted", len(p.releases)))
	return errors.Join(p.report(ctx), errors.Join(p.errs...))
}

// delete deletes a HelmReleaseProxy. Its finalizer keeps it until the release is gone.
func (p *pass) delete(ctx context.Context, r caaph.HelmReleaseProxy) error {
	if !r.DeletionTimestamp.IsZero() {
		return nil
	}
	return client.IgnoreNotFound(p.Delete(ctx, &r))
}

// keep does for each cluster what is needed.
func (p *pass) keep(ctx context.Context) error {
	objects, err := p.clusters.list(ctx, p.hcp.Namespace)
	if err != nil {
		return err
	}
	byName := make(map[string]*unstructured.Unstructured, len(objects))
	var all []chartplan.Cluster
	for i := range objects {
		byName[objects[i].GetName()] = &objects[i]
		all = append(all, summary(&objects[i]))
	}
	if p.selected, err = chartplan.Select(p.hcp, all); err != nil {
		p.show(selectionFailed, "spec.clusterSelector: "+err.Error())
		return nil //nolint:nilerr // the condition says it
	}
	for _, r := range chartplan.Orphans(p.hcp, p.selected, p.releases) {
		if err := p.delete(ctx, r); err != nil {
			p.fail(deletionFailed, err)
		}
	}
	var works []work
	for _, c := range p.selected {
		if !c.Deleting {
			works = append(works, p.decide(ctx, c, byName[c.Name]))
		}
	}
	for _, w := range p.started(ctx, works) {
		p.do(ctx, w)
	}
	return nil
}

// work has the changes that a cluster needs.
type work struct {
	cluster chartplan.Cluster
	action  chartplan.Action // "" if it is not known
	want    caaph.HelmReleaseProxy
	has     caaph.HelmReleaseProxy // zero if there is none
	blocked bool                   // nothing may be done now
}

// decide determines what a cluster needs. A rollout also has to know clusters where nothing can be done now: it would otherwise
// continue without its canaries, and forget which ones started.
func (p *pass) decide(ctx context.Context, c chartplan.Cluster, object *unstructured.Unstructured) work {
	w := work{cluster: c, blocked: c.Paused}
	var has []caaph.HelmReleaseProxy
	for _, r := range p.releases {
		if r.Spec.ClusterRef.Name == c.Name {
			has = append(has, r)
		}
	}
	if len(has) == 1 {
		w.has = has[0]
		if !w.has.DeletionTimestamp.IsZero() {
			if !c.Paused {
				p.show(reinstalling, p.reinstalled(c))
			}
			w.action = chartplan.Keep
			return w
		}
	}
	reason := valuesFailed
	text, err := p.render(ctx, c, object)
	if err != nil {
		err = fmt.Errorf("failed to parse values on cluster %s: %w", c.Name, err)
	} else {
		reason = creationFailed
		w.action, w.want, err = chartplan.Decide(p.hcp, c, has, text)
	}
	if err != nil {
		w.action, w.blocked = "", true
		if !c.Paused {
			p.fail(reason, err)
		}
	}
	return w
}

func (p *pass) reinstalled(c chartplan.Cluster) string {
	return fmt.Sprintf("HelmReleaseProxy on cluster '%s' successfully deleted, preparing to reinstall", c.Name)
}

// do writes what a cluster needs.
func (p *pass) do(ctx context.Context, w work) {
	var err error
	switch w.action {
	case chartplan.Create:
		// The name is the same each time. A pass that does not see another's object yet makes no second one.
		w.want.Name = w.want.GenerateName + suffix(p.hcp, w.cluster)
		if err = p.Create(ctx, &w.want); apierrors.IsAlreadyExists(err) {
			err = p.sees(ctx, w.want.Name)
		}
		p.show(specsUpdating, fmt.Sprintf("Helm release proxy '%s' is not updated yet", w.want.Name))
	case chartplan.Update:
		err = p.Patch(ctx, &w.want, client.MergeFromWithOptions(w.has.DeepCopyObject().(client.Object), client.MergeFromWithOptimisticLock{}))
		p.show(specsUpdating, fmt.Sprintf("Helm release proxy '%s' is not updated yet", w.has.Name))
	case chartplan.Reinstall:
		err = p.delete(ctx, w.has)
		p.show(reinstalling, p.reinstalled(w.cluster))
	}
	if err != nil {
		p.fail(creationFailed, fmt.Errorf("cluster %s: %w", w.cluster.Name, err))
	}
}

// sees reports whether a HelmReleaseProxy that cannot be created is ours, and only the cache is late.
func (p *pass) sees(ctx context.Context, name string) error {
	var there caaph.HelmReleaseProxy
	if err := p.clusters.direct.Get(ctx, client.ObjectKey{Namespace: p.hcp.Namespace, Name: name}, &there); err != nil {
		return err
	}
	if owner := metav1.GetControllerOf(&there); owner == nil || owner.UID != p.hcp.UID {
		return fmt.Errorf("HelmReleaseProxy %s exists and was not created by this HelmChartProxy: delete or rename it", name)
	}
	return nil
}

// report writes the status, if it changed.
func (p *pass) report(ctx context.Context) error {
	base := p.hcp.DeepCopyObject().(*caaph.HelmChartProxy)
	status := &p.hcp.Status
	status.ObservedGeneration = p.hcp.Generation
	status.MatchingClusters = []corev1.ObjectReference{}
	for _, c := range p.selected {
		status.MatchingClusters = append(status.MatchingClusters, c.Reference())
	}
	had := condition(base.Status.Conditions, proxiesReadyType)
	set(&status.Conditions, p.hcp.Generation, chartplan.Aggregate(p.releases, p.problem, had)...)
	if reflect.DeepEqual(base.Status, p.hcp.Status) {
		return nil
	}
	return client.IgnoreNotFound(p.Status().Patch(ctx, p.hcp, client.MergeFrom(base)))
}

// names joins at most a few names.
func names(list []string) string {
	const shown = 5
	if len(list) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:shown], ", "), len(list)-shown)
	}
	return strings.Join(list, ", ")
}
