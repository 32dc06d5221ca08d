// Package proxy runs the controllers of HelmChartProxy and HelmReleaseProxy: the Cluster API add-on provider for Helm.
//
// A HelmChartProxy selects clusters and writes a HelmReleaseProxy for each (ChartReconciler). A HelmReleaseProxy keeps one
// release on one cluster (ReleaseReconciler), with the help of a Provider. What they decide is in fleet/chartplan and
// fleet/values; here it is observed and done.
package proxy

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/chartplan"
	"github.com/sealift/sealift/fleet/hub"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/internal/poll"
)

// Options configure the controllers.
type Options struct {
	// Resync is how often everything is looked at again, such as for a newer version of a chart. Default 10 minutes.
	Resync time.Duration
	// AtOnce is how many proxies of each kind are worked on at a time. Default 10.
	AtOnce int
	// Schemes are allowed for repoURL in addition to https and oci: http and file.
	Schemes []string
	// SecretNamespaces may be named in credentials and tlsConfig, in addition to the proxy's.
	SecretNamespaces []string
	// Retry is the pause after a first failure. It doubles up to Resync. Default 5 s.
	Retry time.Duration
	// Provider keeps releases on clusters. Default is Helm.
	Provider Provider
}

func (o Options) defaults() Options {
	o.Resync = cmp.Or(o.Resync, 10*time.Minute)
	o.AtOnce = cmp.Or(o.AtOnce, 10)
	o.Retry = cmp.Or(o.Retry, 5*time.Second)
	if o.Provider == nil {
		o.Provider = NewHelm(o.Schemes)
	}
	return o
}

// New returns what registers the controllers and the admission with a hub.
func New(o Options) hub.Controller {
	o = o.defaults()
	return func(ctx context.Context, h *hub.Hub) error {
		if err := errors.Join(caaph.AddToScheme(h.GetScheme()), ocm.AddToScheme(h.GetScheme())); err != nil {
			return err
		}
		found := &clusters{reader: h.GetClient(), direct: h.GetAPIReader(), mapper: h.GetRESTMapper()}
		charts := &ChartReconciler{Client: h.GetClient(), clusters: found, namespace: h.Namespace, options: o, now: time.Now}
		releases := &ReleaseReconciler{Client: h.GetClient(), clusters: found, options: o}
		watcher := &watchClusters{manager: h, clusters: found, every: o.Retry}
		dependents := handler.EnqueueRequestsFromMapFunc(watcher.dependents)
		chartController, err := ctrl.NewControllerManagedBy(h).Named("helmchartproxy").
			For(&caaph.HelmChartProxy{}, builder.WithPredicates(asked)).Owns(&caaph.HelmReleaseProxy{}).
			Watches(&caaph.HelmReleaseProxy{}, dependents).Watches(&caaph.HelmChartProxy{}, dependents, builder.WithPredicates(asked)).
			WithOptions(o.controller()).Build(charts)
		if err != nil {
			return err
		}
		sharded, gained := h.Shard(releases, releases.clusterOf, releases.all)
		options := o.controller()
		options.NeedLeaderElection = new(false)
		fair := newFair(sharded, o.AtOnce-1)
		options.RateLimiter = remembers{options.RateLimiter, fair}
		releaseController, err := ctrl.NewControllerManagedBy(h).Named("helmreleaseproxy").
			For(&caaph.HelmReleaseProxy{}, builder.WithPredicates(asked)).WatchesRawSource(gained).WatchesRawSource(fair.freed()).
			WithOptions(options).Build(fair)
		if err != nil {
			return err
		}
		watcher.charts, watcher.releases = chartController, releaseController
		return errors.Join(h.Add(watcher), admit(ctx, h, o.Schemes))
	}
}

func (o Options) controller() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: o.AtOnce,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](o.Retry, o.Resync),
	}
}

// asked passes what users change. A controller's own writes of a status would end the pause after a failure.
var asked = predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{})

// kindLook is the longest pause between two checks for the kind Cluster: each asks the API server for all of its groups.
const kindLook = time.Minute

// watchClusters watches Cluster objects once the hub has that kind. Cluster API may be installed later.
type watchClusters struct {
	manager          manager.Manager
	clusters         *clusters
	charts, releases controller.Controller
	every            time.Duration
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: releases are kept by all hubs of a fleet.
func (w *watchClusters) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (w *watchClusters) Start(ctx context.Context) error {
	pauses := poll.Backoff{First: w.every, Longest: kindLook}
	object := new(unstructured.Unstructured)
	err := pauses.Until(ctx, nil, func(context.Context) (bool, error) {
		kind, err := w.clusters.kind()
		if meta.IsNoMatchError(err) {
			err = poll.NotYet(err)
		}
		object.SetGroupVersionKind(kind)
		return err == nil, err
	})
	switch {
	case ctx.Err() != nil:
		return nil //nolint:nilerr // it was told to end
	case err != nil:
		return err
	}
	watch := func(list func(context.Context, client.Object) []reconcile.Request) source.Source {
		return source.Kind[client.Object](w.manager.GetCache(), object, handler.EnqueueRequestsFromMapFunc(list), predicate.Funcs{UpdateFunc: relevant})
	}
	return errors.Join(w.charts.Watch(watch(w.chartsOf)), w.releases.Watch(watch(w.releasesOf)))
}

// relevant leaves out updates of a status that change no decision: Cluster API writes them all the time.
func relevant(e event.UpdateEvent) bool {
	old, ok := e.ObjectOld.(*unstructured.Unstructured)
	now, both := e.ObjectNew.(*unstructured.Unstructured)
	return !ok || !both || old.GetGeneration() != now.GetGeneration() || waits(old) != waits(now) ||
		!equality.Semantic.DeepEqual(old.GetLabels(), now.GetLabels()) || !equality.Semantic.DeepEqual(old.GetAnnotations(), now.GetAnnotations())
}

// chartsOf lists the HelmChartProxies that a cluster may concern.
func (w *watchClusters) chartsOf(ctx context.Context, cluster client.Object) (requests []reconcile.Request) {
	var list caaph.HelmChartProxyList
	if err := w.manager.GetClient().List(ctx, &list, client.InNamespace(cluster.GetNamespace())); err != nil {
		return nil // the cache is closed: the hub ends
	}
	for _, o := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: o.Namespace, Name: o.Name}})
	}
	return requests
}

// releasesOf lists the HelmReleaseProxies of a cluster.
func (w *watchClusters) releasesOf(ctx context.Context, cluster client.Object) (requests []reconcile.Request) {
	var list caaph.HelmReleaseProxyList
	err := w.manager.GetClient().List(ctx, &list, client.InNamespace(cluster.GetNamespace()), client.MatchingLabels{caaph.ClusterLabel: cluster.GetName()})
	if err != nil {
		return nil
	}
	for _, o := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: o.Namespace, Name: o.Name}})
	}
	return requests
}

// set writes conditions. Their times change only if their status does.
func set(conditions *[]metav1.Condition, generation int64, list ...chartplan.Condition) {
	for _, c := range list {
		const longest = 32768 // bytes of a message
		meta.SetStatusCondition(conditions, metav1.Condition{
			Type: c.Type, Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message[:min(len(c.Message), longest)], ObservedGeneration: generation,
		})
	}
}

// condition returns an existing condition, or a zero one.
func condition(conditions []metav1.Condition, kind string) chartplan.Condition {
	if c := meta.FindStatusCondition(conditions, kind); c != nil {
		return chartplan.Condition{Type: kind, Status: string(c.Status), Reason: c.Reason, Message: c.Message}
	}
	return chartplan.Condition{}
}

// withFinalizer adds a finalizer, if it is missing.
func withFinalizer(ctx context.Context, c client.Client, o client.Object, name string) error {
	if slices.Contains(o.GetFinalizers(), name) {
		return nil
	}
	base := o.DeepCopyObject().(client.Object)
	o.SetFinalizers(append(o.GetFinalizers(), name))
	return c.Patch(ctx, o, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
}

// withoutFinalizer removes a finalizer. The object may be gone.
func withoutFinalizer(ctx context.Context, c client.Client, o client.Object, name string) error {
	if !slices.Contains(o.GetFinalizers(), name) {
		return nil
	}
	base := o.DeepCopyObject().(client.Object)
	o.SetFinalizers(slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return f == name }))
	return client.IgnoreNotFound(c.Patch(ctx, o, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})))
}
