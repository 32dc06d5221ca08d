package control

import (
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
