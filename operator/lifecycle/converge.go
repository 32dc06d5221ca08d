package lifecycle

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/engine"
	"github.com/sealift/sealift/operator/queue"
	"github.com/sealift/sealift/operator/values"
)

// discoverPause is the time until a discovery that failed is tried again.
const discoverPause = 5 * time.Second

// state is the progress of the reloads of all modules.
type state struct {
	// number is that of the reload that counts. Steps of an older one do nothing.
	number  int
	waiting bool // a reload is queued that has not begun
	running bool // one has begun and is not over
	started bool // the first has begun
	done    bool // one is over
}

// converge is one reload of all modules.
type converge struct {
	*Operator

	number     int
	activation string
	began      time.Time
	before     [sha256.Size]byte // the sum of global values before the hooks after all modules
}

// restart is reload for a change by administrators: one that runs is given up for it.
func (o *Operator) restart(activation string) {
	o.mu.Lock()
	o.state.number++
	o.mu.Unlock()
	o.reload(activation)
}

// reload queues a reload of all modules. One that waits is enough. One that runs is over first, unless a step of it fails: hooks in queues of
// their own may change values more often than all modules can run.
func (o *Operator) reload(activation string) {
	o.mu.Lock()
	if o.state.waiting {
		o.mu.Unlock()
		return
	}
	o.state.waiting = true
	o.mu.Unlock()
	c := &converge{Operator: o, activation: activation}
	o.engine.Queues().Add(binding.MainQueue, &queue.Task{Name: "reload all modules, because of " + activation, Do: c.begin})
	o.engine.Queues().Wake(binding.MainQueue) // a step of the old one may have failed and wait
}

// obsolete reports whether a newer reload replaces this one, whose next step is t. One that waits does so if the step has failed.
func (c *converge) obsolete(t *queue.Task) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.waiting && t.Failures() > 0 {
		c.state.number++
	}
	return c.state.number != c.number
}

// ending reports whether a reload waits that will disable a module, according to the current flags and relations. Without that,
// a hook that always fails could not be switched off: the reload is behind it.
func (o *Operator) ending(u *unit) bool {
	flags, config, verdicts := o.store.hookFlags(), o.store.inForce(), map[*unit]verdict{}
	for _, one := range o.units {
		on, _ := o.store.found.Enabled(one.Module, flags, config)
		verdicts[one] = verdict{on: on && o.lacks(one, verdicts) == ""}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.state.waiting && u.enabled && !verdicts[u].on
}

// step makes a task that does nothing once the reload is obsolete.
func (c *converge) step(t *queue.Task) *queue.Task {
	do := t.Do
	t.Do = func(ctx context.Context, q *queue.Queue, t *queue.Task) error {
		if c.obsolete(t) {
			return nil
		}
		return do(ctx, q, t)
	}
	return t
}

func (c *converge) begin(_ context.Context, q *queue.Queue, _ *queue.Task) error {
	c.mu.Lock()
	c.state.waiting, c.state.running, c.state.started = false, true, true
	c.state.number++
	c.number = c.state.number
	c.mu.Unlock()
	c.began = time.Now()
	next := c.hooks(binding.BeforeAll)
	q.Next(append(next, c.step(&queue.Task{Name: "discover modules", Do: c.discovered, Pause: discoverPause}))...)
	return nil
}

// hooks are the runs of global hooks around all modules.
func (c *converge) hooks(t binding.Type) (all []*queue.Task) {
	for _, h := range engine.InOrder(c.global, t) {
		all = append(all, c.step(c.lifecycleTask(h, t, c.activation)))
	}
	return all
}

// lifecycleTask is a run of a hook at a moment of the life of modules. It sees the objects of all its bindings (S-8).
func (o *Operator) lifecycleTask(h *engine.Hook, t binding.Type, activation string) *queue.Task {
	one := binding.Context{Type: t, Binding: string(t)}
	if t != binding.OnStartup {
		one.IncludeAll, one.Include = true, h.Config.KubernetesNames()
	}
	task := o.engine.Task(h, binding.Common{}, one)
	task.Activation = activation
	return task
}

// discovered finds out which modules run, and queues what follows: definitions of all modules that are new, deletions in
// reverse order, runs in order, and hooks after all modules.
func (c *converge) discovered(ctx context.Context, q *queue.Queue, _ *queue.Task) error {
	p, err := c.discover(ctx, c.activation)
	if err != nil {
		c.telemetry.discoverErrors.Inc()
		return err
	}
	var next []*queue.Task
	for _, u := range p.run {
		if !u.defined {
			next = append(next, c.step(c.defineTask(u)))
		}
	}
	for _, u := range slices.Backward(p.remove) {
		next = append(next, c.step(c.deleteTask(u, c.activation)))
	}
	for _, u := range p.run {
		next = append(next, c.runTask(u, c, c.activation))
	}
	for _, name := range p.purge {
		next = append(next, c.step(c.purgeTask(name)))
	}
	next = append(next, c.step(&queue.Task{Name: "note global values", Do: func(context.Context, *queue.Queue, *queue.Task) (err error) {
		c.before, err = c.store.sum(values.GlobalKey)
		return err
	}}))
	next = append(next, c.hooks(binding.AfterAll)...)
	q.Next(append(next, c.step(&queue.Task{Name: "end the reload of all modules", Do: c.over}))...)
	return nil
}

// over ends a reload. If hooks after all modules have changed global values, all modules run again.
func (c *converge) over(ctx context.Context, _ *queue.Queue, _ *queue.Task) error {
	after, err := c.store.sum(values.GlobalKey)
	if err != nil {
		return err
	}
	c.mu.Lock()
	first := !c.state.done
	c.state.running, c.state.done, c.purged = false, true, true
	enabled := 0
	for _, u := range c.units {
		if u.enabled {
			enabled++
		}
	}
	c.mu.Unlock()
	took := time.Since(c.began)
	c.telemetry.converged(c.activation, took)
	c.log.InfoContext(ctx, "all modules have run", "modules", enabled, "first", first, "because", c.activation, "took", took.Round(time.Millisecond).String())
	if after != c.before {
		c.reload("afterAll")
	}
	return nil
}

// Ready reports whether all modules have run once.
func (o *Operator) Ready() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.state.done
}
