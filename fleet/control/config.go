package control

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// watcher watches the kinds of configuration objects. Which these are is known once an add-on names them.
type watcher struct {
	cache      cache.Cache
	controller controller.Controller
	changed    handler.EventHandler

	mu      sync.Mutex
	watched map[schema.GroupVersionKind]bool
}

func (w *watcher) watch(gvk schema.GroupVersionKind) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watched[gvk] {
		return nil
	}
	var object client.Object = &unstructured.Unstructured{}
	object.GetObjectKind().SetGroupVersionKind(gvk)
	if err := w.controller.Watch(source.Kind(w.cache, object, w.changed)); err != nil {
		return err
	}
	w.watched[gvk] = true
	return nil
}
