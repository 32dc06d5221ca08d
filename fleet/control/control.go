// Package control has the controllers of Open Cluster Management's add-ons. They observe the hub, call the pure packages beside
// this one, and write what changed. The decisions are in those packages.
//
//   - Clusters: whether a cluster answers, its taints, and the labels for the health of its add-ons.
//   - Placements: which clusters a Placement selects.
//   - Add-ons: where a ClusterManagementAddOn is installed, and which cluster gets which configuration when.
//   - Add-ons of clusters: the ManifestWorks of a ManagedClusterAddOn, its rights on the hub, and its conditions.
//   - Certificates: the requests of add-on agents.
//   - Signatures: the seals of works.
//
// Clusters, add-ons of clusters and signatures are work on one cluster each, which the hubs of a fleet share. The rest is done by
// the hub that decides. Nothing is polled. A controller that waits for a time asks to be called then.
package control

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/fleet/hub"
	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/ocm"
)

// settle is how long a controller waits for more changes of many objects before it reconciles all of them.
const settle = 100 * time.Millisecond

// Options of the controllers. A hub uses the zero value.
type Options struct {
	// Now is the time. Nil is time.Now.
	Now func() time.Time
	// Concurrency is how many clusters are processed at once. Default 24.
	Concurrency int
	// SecretNamespaces are the namespaces, in addition to the hub's, whose Secrets templates may name as authorities of signers.
	SecretNamespaces []string
	// Store has the packages that carry the images of add-ons. Works name the digests of these images then, and an add-on with an image
	// that no package carries is given to no cluster. Nil: works name images as templates do.
	Store *packages.Source
	// LookupInterval is how long after a lookup in the store another one follows for images that were not found. Default 1 min.
	LookupInterval time.Duration
}

// controllers has the state that all controllers share.
type controllers struct {
	client.Client
	direct client.Reader // without the cache
	hub    *hub.Hub
	reader inventory.Reader
	signer *signer
	log    *slog.Logger
	now    func() time.Time
	Options

	renewals renewals
	pending  pendingWorks
	outdated outdated // versions of ManagedClusterAddOns and ManifestWorks
	images   *images
}

// New returns the controllers for a hub.
func New(o Options) hub.Controller {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Concurrency, o.LookupInterval = cmp.Or(o.Concurrency, 24), cmp.Or(o.LookupInterval, time.Minute)
	return func(ctx context.Context, h *hub.Hub) error {
		err := h.GetFieldIndexer().IndexField(ctx, &ocm.ManagedClusterAddOn{}, inventory.Name, func(o client.Object) []string { return []string{o.GetName()} })
		if err == nil {
			err = indexHosted(ctx, h)
		}
		if err != nil {
			return err
		}
		c := &controllers{Client: h.GetClient(), direct: h.GetAPIReader(), hub: h, log: h.Log, now: o.Now, Options: o}
		c.reader = inventory.Reader{Reader: h.GetClient(), Mapper: h.GetRESTMapper()}
		c.images = newImages(c)
		if c.signer, err = c.newSigner(ctx); err != nil {
			return err
		}
		for _, start := range []func() error{c.sets, c.setConditions, c.clusters, c.placements, c.addOns, c.clusterAddOns, c.certificates, c.signatures, c.finishes} {
			if err := start(); err != nil {
				return err
			}
		}
		return nil
	}
}

// clusterIn returns the cluster of a request: the namespace of an object, or the name of one without a namespace.
func clusterIn(_ context.Context, req reconcile.Request) string {
	return cmp.Or(req.Namespace, req.Name)
}

// sharded lets a controller work on the clusters of this hub's shards. all lists the requests of all clusters.
func (c *controllers) sharded(b *builder.Builder, r reconcile.Reconciler, all func(context.Context, client.Object) []reconcile.Request) error {
	reconciler, gained := c.hub.Shard(retryOnConflict(r), clusterIn, func(ctx context.Context) []reconcile.Request { return all(ctx, nil) })
	return b.WithOptions(controller.Options{MaxConcurrentReconciles: c.Concurrency, NeedLeaderElection: new(false)}).
		WatchesRawSource(gained).Complete(reconciler)
}

// retryOnConflict reconciles again, without an error in the log, after a conflict with another writer.
func retryOnConflict(r reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		result, err := r.Reconcile(ctx, req)
		if apierrors.IsConflict(err) {
			return reconcile.Result{RequeueAfter: settle}, nil
		}
		return result, err
	})
}

// last returns a handler whose requests come after all others: answers of clusters wait while clusters need works.
func last(requests func(context.Context, client.Object) []reconcile.Request) handler.EventHandler {
	return handled(requests, addLast)
}

func addLast(q queue, r reconcile.Request) {
	if sorted, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		sorted.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, r)
		return
	}
	q.Add(r)
}

// soon makes a handler that waits a moment for more events of the same requests.
func soon(requests func(context.Context, client.Object) []reconcile.Request) handler.EventHandler {
	return handled(requests, func(q queue, r reconcile.Request) { q.AddAfter(r, settle) })
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// handled makes a handler that puts the requests of all objects of an event into the queue.
func handled(requests func(context.Context, client.Object) []reconcile.Request, put func(queue, reconcile.Request)) handler.EventHandler {
	add := func(ctx context.Context, q queue, objects ...client.Object) {
		for _, o := range objects {
			for _, r := range requests(ctx, o) {
				put(q, r)
			}
		}
	}
	return handler.Funcs{
		CreateFunc:  func(ctx context.Context, e event.CreateEvent, q queue) { add(ctx, q, e.Object) },
		UpdateFunc:  func(ctx context.Context, e event.UpdateEvent, q queue) { add(ctx, q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc:  func(ctx context.Context, e event.DeleteEvent, q queue) { add(ctx, q, e.Object) },
		GenericFunc: func(ctx context.Context, e event.GenericEvent, q queue) { add(ctx, q, e.Object) },
	}
}

// every returns a request for each object of a list.
func every[T ocm.Object, P interface {
	*T
	client.Object
}](c client.Reader, options ...client.ListOption) func(context.Context, client.Object) []reconcile.Request {
	options = append(slices.Clone(options), client.UnsafeDisableDeepCopy)
	return func(ctx context.Context, _ client.Object) []reconcile.Request {
		var list ocm.List[T]
		if err := c.List(ctx, &list, options...); err != nil {
			return nil // the cache answers all lists until the hub ends
		}
		requests := make([]reconcile.Request, len(list.Items))
		for i := range list.Items {
			requests[i].NamespacedName = client.ObjectKeyFromObject(P(&list.Items[i]))
		}
		return requests
	}
}

// patch writes what changed in an object, if anything did. It fails if the object has changed since it was read.
func (c *controllers) patch(ctx context.Context, before, after client.Object) error {
	changed, err := differ(before, after)
	if err != nil || !changed {
		return err
	}
	return c.written(before, after, c.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

// patchStatus is patch for the status.
func (c *controllers) patchStatus(ctx context.Context, before, after client.Object) error {
	changed, err := differ(before, after)
	if err != nil || !changed {
		return err
	}
	return c.written(before, after, c.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

// store creates a ConfigMap, or writes what changed in one that was read. It fails if it has changed since.
func (c *controllers) store(ctx context.Context, config *corev1.ConfigMap) error {
	if config.ResourceVersion == "" {
		return c.Create(ctx, config)
	}
	return c.Update(ctx, config)
}

// written records the object's version from a patch, and returns the error of the patch.
func (c *controllers) written(before, after client.Object, err error) error {
	switch before.(type) {
	case *ocm.ManagedClusterAddOn, *ocm.ManifestWork:
		switch {
		case apierrors.IsConflict(err):
			c.outdated.replaced(before)
		case err == nil && after.GetResourceVersion() != before.GetResourceVersion():
			c.outdated.written(after)
		}
	}
	return err
}

// differ compares two objects in their wire form.
func differ(a, b any) (bool, error) {
	if reflect.DeepEqual(a, b) { // the cheap answer: mostly nothing changed
		return false, nil
	}
	x, err := json.Marshal(a)
	if err != nil {
		return false, err
	}
	y, err := json.Marshal(b)
	return !bytes.Equal(x, y), err
}

// copyOf returns a copy that may be changed.
func copyOf[T client.Object](o T) T {
	c, ok := o.DeepCopyObject().(T)
	if !ok {
		panic(fmt.Sprintf("the copy of %T is something else", o)) // DeepCopyObject returns its own type
	}
	return c
}

// set sets a condition. Its time changes only if its status does.
func (c *controllers) set(conditions *[]metav1.Condition, kind, status, reason, message string) {
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(c.now()),
	})
}
