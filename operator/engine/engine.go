// Package engine runs hooks without modules: shell mode. It loads the hooks of a folder, puts their runs into queues as time
// passes and objects change, and does what they answer. It knows neither modules nor charts.
//
// The order of a start (S-10, S-19): hooks with onStartup run by their order; then kubernetes bindings are watched, and each
// hook runs once with everything that exists; then events and schedules begin.
package engine

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

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
	HooksDir string
	Cluster  *kube.Cluster
	Runner   hook.Runner
	Log      *slog.Logger // nil is silence
	// MetricsPrefix begins the names of the engine's own metrics.
	MetricsPrefix string
}

// Engine runs the hooks of one folder.
type Engine struct {
	Hooks []*Hook

	options   Options
	log       *slog.Logger
	queues    *queue.Set
	watcher   *watch.Watcher
	clock     clock
	metrics   metric.Store
	telemetry *telemetry
	ready     atomic.Bool
}

// Load finds the hooks and asks them for their configurations. Its error names every hook that gives none.
func Load(ctx context.Context, o Options) (*Engine, error) {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.Runner.Log = cmp.Or(o.Runner.Log, o.Log)
	hooks, err := load(ctx, o)
	if err != nil {
		return nil, err
	}
	e := &Engine{Hooks: hooks, options: o, log: o.Log, queues: &queue.Set{Log: o.Log}}
	e.clock = clock{cron: cron.New(), entries: map[string][]entry{}}
	e.telemetry = newTelemetry(e, o.MetricsPrefix)
	return e, nil
}

// Queues are the queues of the engine.
func (e *Engine) Queues() *queue.Set { return e.queues }

// Ready says whether the start is over: every hook has seen what existed.
func (e *Engine) Ready() bool { return e.ready.Load() }

// Metrics gathers the engine's own metrics, and those that hooks report.
func (e *Engine) Metrics() (own, hooks prometheus.Gatherer) {
	reported := prometheus.NewRegistry()
	reported.MustRegister(&e.metrics)
	return e.telemetry.registry, reported
}

// Run runs hooks until ctx ends. A hook that runs then gets SIGTERM.
func (e *Engine) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e.watcher = watch.New(ctx, e.options.Cluster, e.log)
	e.start()
	e.clock.cron.Start()
	go e.telemetry.tick(ctx)
	e.queues.Run(ctx)
	cancel()
	<-e.clock.cron.Stop().Done()
	e.watcher.Wait()
}

// start fills the main queue.
func (e *Engine) start() {
	for _, h := range startOrder(e.Hooks) {
		e.queues.Add(binding.MainQueue, e.run(h, binding.Common{}, binding.Context{Type: binding.OnStartup, Binding: string(binding.OnStartup)}))
	}
	e.queues.Add(binding.MainQueue, &queue.Task{Name: "watch objects", Do: func(context.Context, *queue.Queue, *queue.Task) error {
		e.watch()
		return nil
	}})
	for _, h := range e.Hooks {
		if len(h.Config.Kubernetes) > 0 {
			e.queues.Add(binding.MainQueue, &queue.Task{Name: "synchronize " + h.Name, Do: func(ctx context.Context, q *queue.Queue, _ *queue.Task) error {
				return e.synchronize(ctx, q, h)
			}})
		}
		if len(h.Config.Schedules) > 0 {
			e.queues.Add(binding.MainQueue, &queue.Task{Name: "schedule " + h.Name, Do: func(context.Context, *queue.Queue, *queue.Task) error {
				return e.schedule(h)
			}})
		}
	}
	e.queues.Add(binding.MainQueue, &queue.Task{Name: "be ready", Do: func(context.Context, *queue.Queue, *queue.Task) error {
		e.ready.Store(true)
		e.log.Info("the start is over", "hooks", len(e.Hooks))
		return nil
	}})
}

// watch begins all lists at once, so that bindings of several hooks share them.
func (e *Engine) watch() {
	for _, h := range e.Hooks {
		var all []*watch.Subscription
		for i, b := range h.Config.Kubernetes {
			all = append(all, e.watcher.Subscribe(b, func(c watch.Change) { e.changed(h, i, c) }))
		}
		h.mu.Lock()
		h.subscriptions = all
		h.mu.Unlock()
	}
}

// synchronize shows a hook what exists, one run for each binding. A binding whose objects cannot be listed yet gets its run
// when they can, and holds up nothing.
func (e *Engine) synchronize(ctx context.Context, q *queue.Queue, h *Hook) error {
	var next []*queue.Task
	for i, s := range h.watched() {
		select {
		case <-s.Tried():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		b := &h.Config.Kubernetes[i]
		select {
		case <-s.Synced():
		default:
			go func() {
				select {
				case <-s.Synced():
					e.queueSynchronization(h, i, b.Queue)
				case <-ctx.Done():
				}
			}()
			continue
		}
		switch {
		case !b.OnSynchronization:
			s.Release()
		case b.Wait:
			next = append(next, e.synchronization(h, i))
		default:
			e.queueSynchronization(h, i, b.Queue)
		}
	}
	q.Next(next...)
	return nil
}

func (e *Engine) queueSynchronization(h *Hook, i int, name string) {
	if !h.Config.Kubernetes[i].OnSynchronization {
		h.watched()[i].Release()
		return
	}
	e.queues.Add(name, e.synchronization(h, i))
}

// synchronization is the run with all objects. Events come after it has succeeded.
func (e *Engine) synchronization(h *Hook, i int) *queue.Task {
	b := &h.Config.Kubernetes[i]
	t := e.run(h, b.Common, binding.Context{
		Type: binding.OnKubernetes, Binding: b.Name, Group: b.Group, Include: b.Include, Index: i, Moment: binding.Synchronization,
	})
	t.Done = []func(){h.watched()[i].Release}
	return t
}

// changed queues a run for an event.
func (e *Engine) changed(h *Hook, i int, c watch.Change) {
	b := &h.Config.Kubernetes[i]
	e.queues.Add(b.Queue, e.run(h, b.Common, binding.Context{
		Type: binding.OnKubernetes, Binding: b.Name, Group: b.Group, Include: b.Include, Index: i,
		Moment: binding.OneEvent, Event: c.Event, Objects: []binding.Object{c.Object},
	}))
}

// run is the task of a run.
func (e *Engine) run(h *Hook, b binding.Common, contexts ...binding.Context) *queue.Task {
	return &queue.Task{
		Name: fmt.Sprintf("run %s", h.Name), Hook: h.Name, Version: h.Config.Version, AllowFailure: b.AllowFailure, Contexts: contexts,
		Do: func(ctx context.Context, q *queue.Queue, t *queue.Task) error { return e.do(ctx, q, t, h) },
	}
}
