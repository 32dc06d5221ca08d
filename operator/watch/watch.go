// Package watch keeps the objects of kubernetes bindings: it lists and watches the selected objects, runs their jq filters, and
// reports changes.
//
// Bindings that select the same objects share one list and one watch. An object is kept as its JSON, not as a tree of maps, and
// only if a binding needs it whole; otherwise only its filter results are kept. A kind that the cluster does not serve yet
// delays the bindings on it and no others.
package watch

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/operator/binding"
)

// Watcher holds the lists of one cluster.
type Watcher struct {
	ctx     context.Context // of all watches, which outlast the call that begins them
	cluster *kube.Cluster
	log     *slog.Logger

	mu      sync.Mutex
	sources []*source
	running sync.WaitGroup
}

// New prepares to watch until ctx ends. Nothing is sent yet. A nil log is silence.
func New(ctx context.Context, cluster *kube.Cluster, log *slog.Logger) *Watcher {
	return &Watcher{ctx: ctx, cluster: cluster, log: cmp.Or(log, slog.New(slog.DiscardHandler))}
}

// Wait returns when no watch runs any longer, after the end of the context of New.
func (w *Watcher) Wait() { w.running.Wait() }

// Subscribe begins to watch the objects of a binding. on gets the events that the binding asks for, in order and one at a time,
// after the call of Release. It must not block.
func (w *Watcher) Subscribe(b binding.Kubernetes, on func(Change)) *Subscription {
	return w.SubscribeMeasured(b, on, nil)
}

// Meter gets durations of the work for a binding. Several goroutines call it, and it must not block.
type Meter interface {
	// Filtered gets the duration of the jq filter for one object. Bindings that share the filter get the same.
	Filtered(kind string, took time.Duration)
	// Handled gets the duration of an event, from the watch to the queue.
	Handled(kind string, took time.Duration)
}

// SubscribeMeasured is Subscribe with a meter, which may be nil.
func (w *Watcher) SubscribeMeasured(b binding.Kubernetes, on func(Change), meter Meter) *Subscription {
	ctx, end := context.WithCancel(w.ctx)
	s := &Subscription{
		end: end, ended: ctx.Done(),
		watcher: w, binding: b, on: on, meter: meter, tried: make(chan struct{}), synced: make(chan struct{}),
		sources: map[key]*source{}, missing: map[key]bool{}, untried: map[key]bool{},
	}
	changed := make(chan struct{}, 1)
	if b.NamespaceLabels != "" {
		s.namespaces = w.Subscribe(binding.Kubernetes{
			APIVersion: "v1", Kind: "Namespace", Labels: b.NamespaceLabels, Events: []binding.Event{binding.Added, binding.Deleted},
		}, func(Change) {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
	}
	namespaces := b.Namespaces
	if namespaces == nil && s.namespaces == nil {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		s.add(namespace, true)
	}
	if s.namespaces != nil {
		w.running.Go(func() { s.followNamespaces(changed) })
	} else {
		s.begin()
	}
	return s
}

// attach gives a subscription the source of a key: a running one, if it can serve the subscription, or else a new one.
func (w *Watcher) attach(k key, s *Subscription, initial bool) *source {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.sources {
		if o.key == k && o.join(s, initial) {
			return o
		}
	}
	ctx, cancel := context.WithCancel(w.ctx)
	o := &source{watcher: w, key: k, cancel: cancel, items: map[name]*item{}}
	o.join(s, initial)
	w.sources = append(w.sources, o)
	w.running.Go(func() { o.run(ctx) })
	return o
}

// drop removes an unused source.
func (w *Watcher) drop(o *source) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.sources {
		if w.sources[i] == o {
			w.sources = append(w.sources[:i], w.sources[i+1:]...)
			return
		}
	}
}
