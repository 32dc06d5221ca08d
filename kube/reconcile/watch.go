package reconcile

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube"
)

// lateKind is the pause between two checks for a kind that the cluster does not serve yet.
const lateKind = 5 * time.Second

// watch queues the objects of a kind as they are created, changed and deleted, until ctx ends. It keeps only their metadata.
func (l Loop) watch(ctx context.Context, kind kube.Ref, q queue) error {
	ctx = klog.NewContext(ctx, klog.Logger{}) // failed reports what the informer would log
	objects, err := l.find(ctx, kind)
	if err != nil {
		return nil //nolint:nilerr // ctx has ended
	}
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return objects.List(ctx, o) },
		WatchFuncWithContext: objects.Watch,
	}, &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
	if err := informer.SetTransform(withoutManagedFields); err != nil {
		return err
	}
	err = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) { l.failed(ctx, kind, 0, err) })
	if err != nil {
		return err
	}
	add := func(obj any) {
		name, err := cache.DeletionHandlingObjectToName(obj)
		if err != nil {
			l.failed(ctx, kind, 0, err)
			return
		}
		key := kind
		key.Namespace, key.Name = name.Namespace, name.Name
		q.Add(key)
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) }, DeleteFunc: add})
	if err != nil {
		return err
	}
	informer.RunWithContext(ctx)
	return nil
}

// find waits until the cluster serves a kind.
func (l Loop) find(ctx context.Context, kind kube.Ref) (objects metadata.ResourceInterface, err error) {
	err = poll.Until(ctx, min(lateKind, l.LongestRetry), nil, func(ctx context.Context) (bool, error) {
		found, err := l.Cluster.Metadata(ctx, kind)
		if err != nil {
			l.failed(ctx, kind, 0, err)
			return false, nil
		}
		objects = found
		return true, nil
	})
	return objects, err
}

// withoutManagedFields drops managedFields, which are larger than the other metadata and which no loop reads.
func withoutManagedFields(obj any) (any, error) {
	if o, ok := obj.(*metav1.PartialObjectMetadata); ok {
		o.ManagedFields = nil
	}
	return obj, nil
}
