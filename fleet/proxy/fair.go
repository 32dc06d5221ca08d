package proxy

import (
	"context"
	"slices"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// fair gives one namespace a limited number of workers. Those whose clusters do not answer, and whose charts take long, leave one to the
// others so. A request that finds no worker waits until its namespace frees one.
type fair struct {
	reconcile.Reconciler
	most int

	mu      sync.Mutex
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	busy    map[string]int // workers by namespace
	waiting map[string][]reconcile.Request
	refused map[reconcile.Request]bool // found no worker, and the controller does not know yet
}

func newFair(r reconcile.Reconciler, most int) *fair {
	return &fair{
		Reconciler: r, most: max(1, most), busy: make(map[string]int), waiting: make(map[string][]reconcile.Request), refused: make(map[reconcile.Request]bool),
	}
}

// remembers is a rate limiter that keeps the failures of a request that found no worker: to the controller, it succeeds.
type remembers struct {
	workqueue.TypedRateLimiter[reconcile.Request]
	fair *fair
}

// Forget implements workqueue.TypedRateLimiter. The controller calls it after each request that succeeds.
func (r remembers) Forget(q reconcile.Request) {
	r.fair.mu.Lock()
	refused := r.fair.refused[q]
	delete(r.fair.refused, q)
	r.fair.mu.Unlock()
	if !refused {
		r.TypedRateLimiter.Forget(q)
	}
}

// freed enqueues waiting requests.
func (f *fair) freed() source.Source {
	return source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.queue = q
		return nil
	})
}

// Reconcile implements reconcile.Reconciler.
func (f *fair) Reconcile(ctx context.Context, q reconcile.Request) (reconcile.Result, error) {
	if !f.begin(q) {
		return reconcile.Result{}, nil
	}
	defer f.end(q.Namespace)
	return f.Reconciler.Reconcile(ctx, q)
}

func (f *fair) begin(q reconcile.Request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy[q.Namespace] < f.most {
		f.busy[q.Namespace]++
		return true
	}
	f.refused[q] = true
	if !slices.Contains(f.waiting[q.Namespace], q) {
		f.waiting[q.Namespace] = append(f.waiting[q.Namespace], q)
	}
	return false
}

func (f *fair) end(namespace string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy[namespace]--; f.busy[namespace] == 0 {
		delete(f.busy, namespace)
	}
	list := f.waiting[namespace]
	if len(list) == 0 {
		delete(f.waiting, namespace)
		return
	}
	f.waiting[namespace] = list[1:]
	f.queue.Add(list[0])
}
