package watch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/operator/binding"
)

const (
	// lateKind is the pause between two checks for a kind that the cluster does not serve yet.
	lateKind = 5 * time.Second
	// failures of a list after which they are logged, and after which a start no longer waits for it. The first one may come from
	// a server that does not stream lists.
	failures = 2
)

// key identifies the list of a source.
type key struct{ apiVersion, kind, namespace, labels, fields string }

func (k key) String() string {
	text := k.kind
	if k.apiVersion != "" {
		text += "." + k.apiVersion
	}
	for _, part := range []struct{ name, value string }{{"namespace", k.namespace}, {"labels", k.labels}, {"fields", k.fields}} {
		if part.value != "" {
			text += fmt.Sprintf(" %s %s", part.name, part.value)
		}
	}
	return text
}

// source is one list and watch, and the subscriptions that share it. It is the store of its reflector, which is the only
// one to write items.
type source struct {
	watcher *Watcher
	key     key
	cancel  context.CancelFunc

	mu      sync.Mutex
	full    bool // items have their JSON
	started bool
	ended   bool // nobody needs it any longer
	here    bool // the first list has arrived
	failed  int  // tries since the last watch that began
	refused int  // the permanent ones, such as a missing right
	kind    string
	views   []view
	subs    []viewSlot
	items   map[name]*item
}

// viewSlot is a subscription with the index of its view.
type viewSlot struct {
	sub     *Subscription
	view    int
	initial bool // the content of the first list is not an event for it
}

// join lets a subscription share the source, unless something that it needs was not kept.
func (o *source) join(s *Subscription, initial bool) bool {
	o.mu.Lock()
	at, known := o.viewOf(s)
	if o.ended || o.started && !o.full && (s.binding.KeepFull || !known) {
		o.mu.Unlock()
		return false
	}
	o.full = o.full || s.binding.KeepFull
	if !known {
		at = len(o.views)
		o.views = append(o.views, view{s.binding.Filter})
		for _, i := range o.items { // they exist only where objects are kept whole
			i.results = append(slices.Clip(i.results), o.watcher.result(o, s.binding.Filter, i.full))
		}
	}
	o.subs = append(o.subs, viewSlot{s, at, initial})
	here, tried := o.here, o.refused >= failures
	if here && !initial {
		for _, i := range o.items {
			s.push(o, Change{binding.Added, o.object(i, at, s)})
		}
	}
	o.mu.Unlock()
	if here || tried {
		s.arrived(o.key, here)
	}
	return true
}

// viewOf finds the view of a binding: its jq filter.
func (o *source) viewOf(s *Subscription) (at int, known bool) {
	at = slices.IndexFunc(o.views, func(v view) bool { return v.same(s.binding.Filter) })
	return at, at >= 0
}

func (o *source) detach(s *Subscription) {
	o.mu.Lock()
	o.subs = slices.DeleteFunc(o.subs, func(t viewSlot) bool { return t.sub == s })
	o.ended = len(o.subs) == 0
	unused := o.ended
	o.mu.Unlock()
	if unused {
		o.cancel()
		o.watcher.drop(o)
	}
}

// run lists and watches until ctx ends.
func (o *source) run(ctx context.Context) {
	// fail reports what the reflector would log.
	ctx = klog.NewContext(ctx, logr.Discard())
	for ctx.Err() == nil {
		o.watch(ctx)
	}
}

// watch finds the kind, and lists and watches its objects until ctx ends, or the cluster serves the kind no longer, or in another version.
func (o *source) watch(ctx context.Context) {
	objects, ref := o.find(ctx)
	if objects == nil {
		return
	}
	o.mu.Lock()
	o.kind = ref.Kind
	o.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lists := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector, options.FieldSelector = o.key.labels, o.key.fields
			list, err := objects.List(ctx, options)
			o.fail(ctx, err)
			if kube.Unserved(err) && o.moved(ctx, ref) {
				cancel()
			}
			if err != nil { // not a nil *UnstructuredList
				return nil, err
			}
			return list, nil
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector, options.FieldSelector = o.key.labels, o.key.fields
			w, err := objects.Watch(ctx, options)
			if err == nil {
				o.succeed(ctx)
			}
			o.fail(ctx, err)
			return w, err
		},
	}
	logger := logr.Discard()
	cache.NewReflectorWithOptions(lists, &unstructured.Unstructured{}, o, cache.ReflectorOptions{Logger: &logger, Name: "operator"}).RunWithContext(ctx)
}

// moved looks the kind up again, and reports whether it is not where it was.
func (o *source) moved(ctx context.Context, ref kube.Ref) bool {
	o.watcher.cluster.Forget(ref)
	now, err := o.watcher.cluster.KindOf(ctx, o.key.apiVersion, o.key.kind)
	now.Namespace = ref.Namespace
	return err != nil || now != ref
}

// find waits until the cluster serves the kind.
func (o *source) find(ctx context.Context) (objects dynamic.ResourceInterface, ref kube.Ref) {
	_ = poll.Until(ctx, lateKind, nil, func(ctx context.Context) (bool, error) {
		found, err := o.watcher.cluster.KindOf(ctx, o.key.apiVersion, o.key.kind)
		if err == nil {
			found.Namespace = o.key.namespace
			objects, err = o.watcher.cluster.Objects(ctx, found)
		}
		if err == nil {
			ref = found
			return true, nil
		}
		o.fail(ctx, err)
		if meta.IsNoMatchError(err) || kube.Awaits(err) {
			o.fail(ctx, err) // a kind that is installed later may take hours: nothing waits for it
		}
		return false, poll.NotYet(err)
	})
	if ref.Kind == "" {
		return nil, ref
	}
	return objects, ref
}

// fail counts a failure to list or watch, and logs the first of several. A start waits while the server is unreachable: a hook
// that sees no objects then would consider them deleted.
func (o *source) fail(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	refused := !kube.Transient(err) || kube.Awaits(err)
	o.mu.Lock()
	o.failed++
	if refused {
		o.refused++
	}
	tell, tried := o.failed == failures, refused && o.refused == failures
	subs := slices.Clone(o.subs)
	o.mu.Unlock()
	if tell {
		o.watcher.log.WarnContext(ctx, "objects cannot be watched; the bindings on them wait", "objects", o.key.String(), "error", err)
	}
	if tried {
		for _, t := range subs {
			t.sub.arrived(o.key, false)
		}
	}
}

// succeed notes that a watch has begun, so that the next failure is logged.
func (o *source) succeed(ctx context.Context) {
	o.mu.Lock()
	told := o.failed >= failures
	o.failed, o.refused = 0, 0
	o.mu.Unlock()
	if told {
		o.watcher.log.InfoContext(ctx, "objects are watched", "objects", o.key.String())
	}
}

// objects are those that a subscription sees. With shown, its hook sees them now, and needs none of the events that led to them.
func (o *source) objects(s *Subscription, shown bool) []binding.Object {
	o.mu.Lock()
	defer o.mu.Unlock()
	if shown {
		s.shown(o)
	}
	at, _ := o.viewOf(s)
	all := make([]binding.Object, 0, len(o.items))
	for _, i := range o.items {
		all = append(all, o.object(i, at, s))
	}
	return all
}
