package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/engine"
	"github.com/sealift/sealift/operator/queue"
)

// queueRun queues a run of a module whose values have changed, unless one waits already or the module is off.
func (o *Operator) queueRun(u *unit, activation string) {
	o.mu.Lock()
	run := u.enabled && !u.waiting
	u.waiting = u.waiting || run
	o.mu.Unlock()
	if run {
		o.engine.Queues().Add(binding.MainQueue, o.runTask(u, nil, activation))
	}
}

// runTask runs a module. c is the reload that it is part of, or nil.
func (o *Operator) runTask(u *unit, c *converge, activation string) *queue.Task {
	return &queue.Task{Name: "run module " + u.Name, Do: func(ctx context.Context, q *queue.Queue, t *queue.Task) error {
		o.mu.Lock()
		on := u.enabled
		if c == nil {
			u.waiting = false
			// A reload has yet to define the kinds of the module, and then runs it. One that waits may switch it off instead.
			on = on && u.defined && (t.Failures() == 0 || !o.state.waiting)
		}
		o.mu.Unlock()
		if !on || c != nil && c.obsolete(t) {
			return nil
		}
		begin := time.Now()
		again, err := o.run(ctx, q, u, activation)
		o.telemetry.ran(u.Name, time.Since(begin), err)
		if err != nil {
			if c == nil { // what changes until the next try is in that
				o.mu.Lock()
				u.waiting = true
				o.mu.Unlock()
			}
			return fmt.Errorf("run module %s: %w", u.Name, err)
		}
		if again != nil {
			q.Next(append(again, o.runTask(u, c, activation))...)
		}
		return nil
	}}
}

// run brings a module one phase on, or completely. It returns what has to run before the module runs again: nil is a
// module that is ready, and an empty list one whose hooks after Helm have changed its values.
func (o *Operator) run(ctx context.Context, q *queue.Queue, u *unit, activation string) (again []*queue.Task, err error) {
	if !u.started {
		if err := o.runHooks(ctx, q, u, binding.OnStartup, activation); err != nil {
			return nil, err
		}
		u.started = true
	}
	if !u.watched {
		if again, err = o.watch(ctx, u); err != nil || again != nil {
			return again, err
		}
	}
	if !u.scheduled {
		for _, h := range u.hooks {
			if err := o.engine.Schedule(h); err != nil {
				return nil, err
			}
		}
		u.scheduled = true
	}
	changed, err := o.helm(ctx, q, u, activation)
	if err != nil {
		u.started = u.ready // the first run begins again with onStartup
		return nil, err
	}
	u.ready = true
	if changed {
		return []*queue.Task{}, nil
	}
	return nil, nil
}

// watch begins to watch the bindings of a module's hooks, and returns the runs that show them the existing objects.
func (o *Operator) watch(ctx context.Context, u *unit) (all []*queue.Task, err error) {
	o.engine.Watch(u.hooks...)
	u.watched = true
	for _, h := range u.hooks {
		next, err := o.engine.Synchronize(ctx, h)
		if err != nil {
			return nil, err
		}
		all = append(all, next...)
	}
	return all, nil
}

// runHooks runs the hooks of a module that have a binding, by order. The first that fails ends it.
func (o *Operator) runHooks(ctx context.Context, q *queue.Queue, u *unit, t binding.Type, activation string) error {
	for _, h := range engine.InOrder(u.hooks, t) {
		task := o.lifecycleTask(h, t, activation)
		if err := task.Do(ctx, q, task); err != nil {
			return err
		}
	}
	return nil
}

// helm runs the hooks before the chart, the chart, and those after it. It reports whether the latter have changed values.
func (o *Operator) helm(ctx context.Context, q *queue.Queue, u *unit, activation string) (changed bool, err error) {
	if err := o.runHooks(ctx, q, u, binding.BeforeHelm, activation); err != nil {
		return false, err
	}
	if u.chart {
		all, err := o.store.forHelm(u.Key)
		if err != nil {
			return false, fmt.Errorf("values before Helm: %w", err)
		}
		if err := o.ensure(ctx, u, all, activation); err != nil {
			return false, err
		}
	}
	if len(engine.InOrder(u.hooks, binding.AfterHelm)) == 0 {
		return false, nil
	}
	before, err := o.store.sum(u.Key)
	if err != nil {
		return false, err
	}
	if err := o.runHooks(ctx, q, u, binding.AfterHelm, activation); err != nil {
		return false, err
	}
	after, err := o.store.sum(u.Key)
	return after != before, err
}

// ensure brings the release of a module up to date.
func (o *Operator) ensure(ctx context.Context, u *unit, all map[string]any, activation string) error {
	wanted := helm.Wanted{Name: u.Name, Dir: u.Path, Values: all, Unmanaged: o.store.inForce().Modules[u.Key].Unmanaged}
	survey := u.survey
	if survey == nil {
		survey = o.newSurvey()
	}
	wanted.Absent = func(ctx context.Context, manifest string) ([]string, error) {
		return o.absent(ctx, u, survey, manifest, true)
	}
	wanted.Known, wanted.Files = u.known, u.ahead.take()
	u.known, u.survey, u.ahead = nil, nil, nil // the next run looks itself
	begin := time.Now()
	done, err := o.options.Releases.Ensure(ctx, wanted)
	o.telemetry.ensured(u.Name, activation, done.Upgraded, time.Since(begin))
	if err != nil {
		return err
	}
	if done.Upgraded {
		o.log.InfoContext(ctx, "a release was upgraded", "module", u.Name, "because", done.Why)
	}
	return o.keep(u, done)
}

// deleteTask uninstalls a disabled module, and stops its hooks.
func (o *Operator) deleteTask(u *unit, activation string) *queue.Task {
	return &queue.Task{Name: "delete module " + u.Name, Do: func(ctx context.Context, q *queue.Queue, _ *queue.Task) error {
		if err := o.remove(ctx, q, u, activation); err != nil {
			o.telemetry.deleteErrors.WithLabelValues(u.Name).Inc()
			return fmt.Errorf("delete module %s: %w", u.Name, err)
		}
		return nil
	}}
}

func (o *Operator) remove(ctx context.Context, q *queue.Queue, u *unit, activation string) error {
	if err := o.loadHooks(ctx, u); err != nil {
		return err
	}
	if u.released {
		if err := o.runHooks(ctx, q, u, binding.BeforeDeleteHelm, activation); err != nil {
			return err
		}
		begin := time.Now()
		if err := o.options.Releases.Uninstall(ctx, u.Name); err != nil {
			return err
		}
		o.telemetry.helmSteps.WithLabelValues(u.Name, activation, "delete").Observe(time.Since(begin).Seconds())
	}
	if err := o.runHooks(ctx, q, u, binding.AfterDeleteHelm, activation); err != nil {
		return err
	}
	for _, h := range u.hooks {
		o.engine.Remove(h)
	}
	o.hooksChanged()
	o.mu.Lock()
	for _, ref := range u.refs {
		delete(o.gone, o.identity(ref))
	}
	u.hooks, u.manifest, u.refs = nil, "", nil
	o.mu.Unlock()
	u.loaded, u.started, u.watched, u.scheduled, u.ready, u.defined = false, false, false, false, false, false
	o.store.forget(u.Key)
	u.owner.unreported.Store(false)
	o.log.InfoContext(ctx, "a module was deleted", "module", u.Name, "release", u.released)
	return nil
}

// purgeTask removes a release whose module no longer exists. One that cannot be removed stays until the next start: a foreign
// release whose hooks fail must not block modules.
func (o *Operator) purgeTask(name string) *queue.Task {
	return &queue.Task{Name: "purge release " + name, Do: func(ctx context.Context, _ *queue.Queue, _ *queue.Task) error {
		o.log.WarnContext(ctx, "a release of no module is removed", "release", name)
		if err := o.options.Releases.Uninstall(ctx, name); err != nil && ctx.Err() == nil {
			o.log.ErrorContext(ctx, "a release of no module cannot be removed; the next start tries again", "release", name, "error", err)
		}
		return nil
	}}
}
