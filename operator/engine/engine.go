// Package engine runs hooks. It loads the hooks of folders, queues their runs as time passes and objects change, and applies
// their results. It knows neither modules nor charts: an Owner of hooks passes them more files, and handles more of their
// results. Alone, with the hooks of one folder, it is shell mode.
//
// The order of a start (S-10, S-19): hooks with onStartup run by their order; then kubernetes bindings are watched, and each
// hook runs once with everything that exists; then events and schedules begin.
package engine

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/robfig/cron/v3"

	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/hook"
	"github.com/sealift/sealift/operator/metric"
	"github.com/sealift/sealift/operator/queue"
	"github.com/sealift/sealift/operator/watch"
)

// Options of an engine.
type Options struct {
	HooksDir string // of shell mode
	Cluster  *kube.Cluster
	Patches  *kube.Cluster // for object patches of hooks; nil is Cluster
	Runner   hook.Runner
	Log      *slog.Logger // nil is silence
	// MetricsPrefix begins the names of the engine's own metrics.
	MetricsPrefix string
	// Requests has the metrics of requests to Cluster, or is nil.
	Requests *Requests
	// Modules means that hooks are global or of modules. Metrics have a label for that.
	Modules bool
	// Removed is called with the objects that hooks are about to delete. It may be nil.
	Removed func([]kube.Ref)
	// Made is called with the objects that hooks have created, in any version. It may be nil.
	Made func([]kube.Ref)
}

// Engine runs hooks.
type Engine struct {
	options   Options
	log       *slog.Logger
	queues    *queue.Set
	watcher   *watch.Watcher
	clock     clock
	metrics   metric.Store
	telemetry *telemetry
	ready     atomic.Bool
	idle      atomic.Bool // it stands by

	mu    sync.Mutex
	hooks []*Hook
}

// New makes an engine without hooks.
func New(o Options) *Engine {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.Runner.Log = cmp.Or(o.Runner.Log, o.Log)
	o.Patches = cmp.Or(o.Patches, o.Cluster)
	e := &Engine{options: o, log: o.Log, queues: &queue.Set{Log: o.Log}}
	e.clock = clock{cron: cron.New(), entries: map[string][]entry{}}
	e.telemetry = newTelemetry(e, o.MetricsPrefix)
	e.measureQueues()
	return e
}

// Load makes an engine with the hooks of a folder: shell mode. Its error names every hook without a configuration.
func Load(ctx context.Context, o Options) (*Engine, error) {
	e := New(o)
	_, err := e.Add(ctx, Folder{Dir: o.HooksDir, Scope: binding.Shell})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Hooks are all hooks, in the order in which they were added.
func (e *Engine) Hooks() []*Hook {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.hooks)
}

// Queues are the queues of the engine.
func (e *Engine) Queues() *queue.Set { return e.queues }

// Ready reports whether the start is over: every hook has seen the existing objects.
func (e *Engine) Ready() bool { return e.ready.Load() }

// Metrics gathers the engine's own metrics, and those that hooks report.
func (e *Engine) Metrics() (own, hooks prometheus.Gatherer) {
	reported := prometheus.NewRegistry()
	reported.MustRegister(&e.metrics)
	return e.telemetry.registry, reported
}

// Run runs the hooks until ctx ends. A hook that runs then gets SIGTERM.
func (e *Engine) Run(ctx context.Context) {
	e.Serve(ctx, func(context.Context) {
		e.WatchForWebhooks() // the API server may ask from now on
		e.Start(e.Hooks()...)
		e.queues.Add(binding.MainQueue, &queue.Task{Name: "be ready", Do: func(context.Context, *queue.Queue, *queue.Task) error {
			e.ready.Store(true)
			e.log.Info("the start is over", "hooks", len(e.Hooks()))
			return nil
		}})
	})
}

// Serve works on the queues until ctx ends. Before that it calls begin, which fills them.
func (e *Engine) Serve(ctx context.Context, begin func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	standby := e.watcher != nil // its watches outlast ours
	if !standby {
		e.watcher = watch.New(ctx, e.options.Cluster, e.log)
	}
	e.idle.Store(false)
	for _, h := range e.Hooks() {
		for _, s := range h.watched() {
			s.Idle(false)
		}
	}
	begin(ctx)
	e.clock.cron.Start()
	go e.telemetry.tick(ctx)
	e.queues.Run(ctx)
	cancel()
	<-e.clock.cron.Stop().Done()
	if !standby {
		e.watcher.Wait()
	}
}

// Standby prepares for Serve, which another operator may do now. Until ctx ends, reviews of webhooks see their snapshots. Call
// WatchForWebhooks when hooks are added.
func (e *Engine) Standby(ctx context.Context) {
	e.watcher = watch.New(ctx, e.options.Cluster, e.log)
	e.idle.Store(true)
	e.WatchForWebhooks()
}

// Start puts into the main queue what hooks do first: they run with onStartup, see what exists, and then get events.
func (e *Engine) Start(hooks ...*Hook) {
	for _, h := range InOrder(hooks, binding.OnStartup) {
		e.queues.Add(binding.MainQueue, e.Task(h, binding.Common{}, binding.Context{Type: binding.OnStartup, Binding: string(binding.OnStartup)}))
	}
	e.queues.Add(binding.MainQueue, &queue.Task{Name: "watch objects", Do: func(context.Context, *queue.Queue, *queue.Task) error {
		e.Watch(hooks...)
		return nil
	}})
	for _, h := range hooks {
		if len(h.Config.Kubernetes) > 0 {
			e.queues.Add(binding.MainQueue, &queue.Task{Name: "synchronize " + h.Name, Do: func(ctx context.Context, q *queue.Queue, _ *queue.Task) error {
				next, err := e.Synchronize(ctx, h)
				q.Next(next...)
				return err
			}})
		}
		if len(h.Config.Schedules) > 0 {
			e.queues.Add(binding.MainQueue, &queue.Task{Name: "schedule " + h.Name, Do: func(context.Context, *queue.Queue, *queue.Task) error {
				return e.Schedule(h)
			}})
		}
	}
}

// Subscribe watches objects for the caller. The engine must be serving.
func (e *Engine) Subscribe(b binding.Kubernetes, on func(watch.Change)) *watch.Subscription {
	return e.watcher.Subscribe(b, on)
}

// Watch begins all lists of hooks at once, so that bindings of several hooks share them. A hook that is watched already stays
// so.
func (e *Engine) Watch(hooks ...*Hook) {
	for _, h := range hooks {
		h.watch(func(i int, b binding.Kubernetes) *watch.Subscription {
			s := e.watcher.SubscribeMeasured(b, func(c watch.Change) { e.changed(h, i, c) }, e.telemetry.meter(h, &b))
			s.Idle(e.idle.Load())
			return s
		})
	}
}

// Remove stops a hook: it gets no events, and runs of it that wait in queues do nothing.
func (e *Engine) Remove(h *Hook) {
	e.mu.Lock()
	e.hooks = slices.DeleteFunc(e.hooks, func(one *Hook) bool { return one == h })
	e.mu.Unlock()
	e.unschedule(h)
	h.mu.Lock()
	h.removed = true
	subscriptions := h.subscriptions
	h.subscriptions = nil
	h.mu.Unlock()
	for _, s := range subscriptions {
		s.Stop()
	}
	e.telemetry.forget(h)
}

// Synchronize shows a hook what exists: it returns one run for each binding that others wait for, and queues the others. A
// binding whose objects cannot be listed yet gets its run when they can, and holds up nothing.
func (e *Engine) Synchronize(ctx context.Context, h *Hook) (next []*queue.Task, err error) {
	begin, late := time.Now(), false
	defer func() { e.telemetry.enabling(h, begin, late) }()
	for i, s := range h.watched() {
		select {
		case <-s.Tried():
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		b := &h.Config.Kubernetes[i]
		select {
		case <-s.Synced():
		default:
			late = true
			go func() {
				select {
				case <-s.Synced():
					e.queueSynchronization(h, i, s, true)
				case <-s.Ended():
				case <-ctx.Done():
				}
			}()
			continue
		}
		if b.OnSynchronization && b.Wait {
			next = append(next, e.synchronization(h, i, s, false))
			continue
		}
		e.queueSynchronization(h, i, s, false)
	}
	return next, nil
}

func (e *Engine) queueSynchronization(h *Hook, i int, s *watch.Subscription, late bool) {
	b := &h.Config.Kubernetes[i]
	if !b.OnSynchronization {
		s.Release()
		return
	}
	e.queues.Add(b.Queue, e.synchronization(h, i, s, late))
}

// synchronization is the run with all objects. Events follow after it has succeeded.
func (e *Engine) synchronization(h *Hook, i int, s *watch.Subscription, late bool) *queue.Task {
	b := &h.Config.Kubernetes[i]
	t := e.Task(h, b.Common, binding.Context{
		Type: binding.OnKubernetes, Binding: b.Name, Group: b.Group, Include: b.Include, Index: i, Moment: binding.Synchronization, Late: late,
	})
	t.JoinSynchronizations = h.folder.Scope != binding.Shell
	t.Done = []func(){s.Release}
	return t
}

// changed queues a run for an event.
func (e *Engine) changed(h *Hook, i int, c watch.Change) {
	b := &h.Config.Kubernetes[i]
	e.queues.Add(b.Queue, e.Task(h, b.Common, binding.Context{
		Type: binding.OnKubernetes, Binding: b.Name, Group: b.Group, Include: b.Include, Index: i,
		Moment: binding.OneEvent, Event: c.Event, Objects: []binding.Object{c.Object},
	}))
}

// Task is the task of a run.
func (e *Engine) Task(h *Hook, b binding.Common, contexts ...binding.Context) *queue.Task {
	t := &queue.Task{
		Name: "run " + h.Name, Hook: h.Name, Version: h.Config.Version, AllowFailure: b.AllowFailure, Contexts: contexts,
		Do: func(ctx context.Context, q *queue.Queue, t *queue.Task) error { return e.do(ctx, q, t, h) },
	}
	if h.folder.Owner != nil {
		t.Yields = h.folder.Owner.Ending
	}
	return t
}
