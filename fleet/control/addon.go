package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/sealift/sealift/fleet/install"
	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/relation"
)

// addOns installs add-ons and rolls their configurations out. One goroutine does it for all of them: which cluster starts
// next depends on all the others.
func (c *controllers) addOns() error {
	r := &addOns{controllers: c, rollouts: rolloutStates{controllers: c}, reader: c.reader, rests: make(map[string]time.Time)}
	all := soon(every[ocm.ClusterManagementAddOn](c.Client))
	controller, err := builder.ControllerManagedBy(c.hub).Named("addon").
		For(&ocm.ClusterManagementAddOn{}).
		Watches(&ocm.ManagedClusterAddOn{}, soon(c.withDependents)).
		Watches(&ocm.ClusterManagementAddOn{}, soon(c.withDependents)).
		Watches(&ocm.Placement{}, all).
		Watches(&ocm.PlacementDecision{}, all).
		Watches(&ocm.ManagedCluster{}, all).
		WatchesRawSource(source.Func(c.images.start)).
		Build(retryOnConflict(r))
	w := &watcher{cache: c.hub.GetCache(), controller: controller, changed: all}
	r.reader.Watch = w.watch
	return err
}

// withDependents returns requests for an add-on, and for those that require it.
func (c *controllers) withDependents(ctx context.Context, o client.Object) []reconcile.Request {
	requests := []reconcile.Request{{NamespacedName: types.NamespacedName{Name: o.GetName()}}}
	var all ocm.List[ocm.ClusterManagementAddOn]
	if err := c.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return requests // the cache answers all lists until the hub ends
	}
	for i := range all.Items {
		if a := &all.Items[i]; slices.Contains(relation.Names(a.Annotations), o.GetName()) {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: a.Name}})
		}
	}
	return requests
}

// addOns reconciles ClusterManagementAddOns.
type addOns struct {
	*controllers
	rollouts rolloutStates
	reader   inventory.Reader // it watches the objects that it reads
	rests    map[string]time.Time
}

// A reconcile of an add-on on all clusters is followed by a pause of restShare times its duration, at most restTime: while a thousand
// clusters answer, the hub must not check all of them after each answer.
const restShare, restTime = 4, 2 * time.Second

// Reconcile reconciles one add-on on all clusters.
func (r *addOns) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var addOn ocm.ClusterManagementAddOn
	err := r.Get(ctx, req.NamespacedName, &addOn)
	if apierrors.IsNotFound(err) || err == nil && !addOn.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, r.removed(ctx, req.Name)
	}
	if err != nil || install.Unmanaged(addOn.Annotations) {
		return reconcile.Result{}, err
	}
	begin := time.Now()
	if rest := r.rests[addOn.Name].Sub(begin); rest > 0 {
		return reconcile.Result{RequeueAfter: rest}, nil
	}
	defer func() {
		end := time.Now()
		r.rests[addOn.Name] = end.Add(min(restShare*end.Sub(begin), restTime))
	}()
	f, err := r.reader.AddOn(ctx, &addOn)
	if err != nil {
		return reconcile.Result{}, err
	}
	// a cluster on which the add-on cannot be installed, such as one whose namespace is being deleted, holds up no other
	warnings, failed := r.install(ctx, f)
	again, err := r.configure(ctx, f, warnings)
	return reconcile.Result{RequeueAfter: again}, errors.Join(failed, err)
}

// removed deletes the objects of a deleted add-on on clusters (O-9). The API server's garbage collector does so too, but knows
// only those with an owner reference.
func (r *addOns) removed(ctx context.Context, name string) error {
	r.rollouts.forget(name)
	delete(r.rests, name)
	var list ocm.List[ocm.ManagedClusterAddOn]
	if err := r.List(ctx, &list, client.MatchingFields{inventory.Name: name}); err != nil {
		return err
	}
	var errs []error
	for i := range list.Items {
		a := &list.Items[i]
		owned := slices.ContainsFunc(a.OwnerReferences, func(o metav1.OwnerReference) bool {
			return o.Kind == "ClusterManagementAddOn" && o.Name == name
		})
		if owned && a.DeletionTimestamp.IsZero() {
			errs = append(errs, client.IgnoreNotFound(r.Delete(ctx, a)))
		}
	}
	return errors.Join(errs...)
}

// install creates, changes and deletes ManagedClusterAddOns. A cluster that fails does not stop the others; the error joins all failures.
func (r *addOns) install(ctx context.Context, f *inventory.AddOn) (warnings []string, err error) {
	var clusters []install.Cluster
	for _, cluster := range f.Clusters {
		clusters = append(clusters, install.Cluster{Name: cluster.Name, Annotations: cluster.Annotations, Deleting: !cluster.DeletionTimestamp.IsZero()})
	}
	at := installedAt(f)
	var installed []install.Installed
	for _, a := range f.Installed {
		installed = append(installed, install.Installed{
			Cluster: a.Namespace, Annotations: a.Annotations, Owned: r.owns(f.ClusterManagementAddOn, a), Deleting: !a.DeletionTimestamp.IsZero(),
		})
	}
	changes, warnings := install.Decide(f.Install(), clusters, installed)
	var group errgroup.Group
	group.SetLimit(r.Concurrency)
	failed := make([]error, len(changes))
	for i, change := range changes {
		group.Go(func() error {
			failed[i] = r.change(ctx, f.ClusterManagementAddOn, change, at[change.Cluster])
			return nil
		})
	}
	_ = group.Wait() // the errors are in failed
	return warnings, errors.Join(failed...)
}

// installedAt returns an add-on by the clusters that it is installed on.
func installedAt(f *inventory.AddOn) map[string]*ocm.ManagedClusterAddOn {
	at := make(map[string]*ocm.ManagedClusterAddOn, len(f.Installed))
	for _, a := range f.Installed {
		at[a.Namespace] = a
	}
	return at
}

func (r *addOns) owns(addOn *ocm.ClusterManagementAddOn, a *ocm.ManagedClusterAddOn) bool {
	return slices.ContainsFunc(a.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == addOn.UID })
}

// change makes one change.
func (r *addOns) change(ctx context.Context, addOn *ocm.ClusterManagementAddOn, change install.Change, a *ocm.ManagedClusterAddOn) error {
	owner := metav1.OwnerReference{
		APIVersion: ocm.AddOnVersion.String(), Kind: "ClusterManagementAddOn", Name: addOn.Name, UID: addOn.UID,
		Controller: new(true), BlockOwnerDeletion: new(true),
	}
	switch change.Verb {
	case install.Create:
		a = &ocm.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{
			Name: addOn.Name, Namespace: change.Cluster, Annotations: change.Annotations, OwnerReferences: []metav1.OwnerReference{owner},
		}}
		a.Spec.InstallNamespace = ocm.DefaultInstallNamespace
		err := r.Create(ctx, a)
		switch {
		case err == nil, apierrors.IsAlreadyExists(err): // the cache does not have it yet
			return nil
		case apierrors.IsNotFound(err):
			return fmt.Errorf("install %s on cluster %s: its namespace does not exist yet: %w", addOn.Name, change.Cluster, err)
		}
		return fmt.Errorf("install %s on cluster %s: %w", addOn.Name, change.Cluster, err)
	case install.Delete:
		return client.IgnoreNotFound(r.Delete(ctx, a))
	}
	after := copyOf(a)
	after.Annotations = change.Annotations
	if !r.owns(addOn, a) {
		after.OwnerReferences = slices.DeleteFunc(after.OwnerReferences, func(o metav1.OwnerReference) bool {
			return o.Kind == owner.Kind && o.Name == owner.Name // of an add-on of this name that was deleted
		})
		if metav1.GetControllerOf(after) != nil {
			owner.Controller = nil
		}
		after.OwnerReferences = append(after.OwnerReferences, owner)
	}
	return r.patch(ctx, a, after)
}

// until returns how long to wait for a time. Zero is never.
func (r *addOns) until(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(time.Millisecond, t.Sub(r.now()))
}

// watcher watches the kinds of configuration objects. Which these are is known once an add-on names them.
type watcher struct {
	cache      cache.Cache
	controller controller.Controller
	changed    handler.EventHandler

	// watched are the kinds that are watched. It buys one watch of each kind, however many add-ons name it.
	watched memory[schema.GroupVersionKind, struct{}]
}

// watch begins to watch a kind, unless it is watched.
func (w *watcher) watch(gvk schema.GroupVersionKind) (err error) {
	w.watched.change(gvk, func(_ struct{}, watched bool) (struct{}, bool) {
		if watched {
			return struct{}{}, true
		}
		var object client.Object = &unstructured.Unstructured{}
		object.GetObjectKind().SetGroupVersionKind(gvk)
		err = w.controller.Watch(source.Kind(w.cache, object, w.changed))
		return struct{}{}, err == nil
	})
	return err
}
