package engine

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/time/rate"

	"github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/hook"
	"github.com/sealift/sealift/operator/watch"
)

// Folder is the folder of one owner's hooks.
type Folder struct {
	Dir   string
	Scope binding.Scope
	// Prefix goes before the names of the hooks, such as 001-ingress/hooks. Module names their module in metrics.
	Prefix, Module string
	// Owner is nil in shell mode.
	Owner Owner
}

// Owner is who hooks belong to. It passes them more files, and handles more of their results than metrics and objects.
type Owner interface {
	// Files are the files that a hook reads, by the variable that names the file.
	Files() (map[string][]byte, error)
	// Answers are the variables of the files that the hook writes.
	Answers() []string
	// Ending reports whether the owner waits in the main queue to stop its hooks. A run that fails does not hold that up.
	Ending() bool
	// Off reports whether the owner is off and about to stop its hooks. They do not run for events and schedules then.
	Off() bool
	// Take handles the hook's other results, after its metrics and its object patches. An error repeats the run.
	Take(ctx context.Context, h *Hook, contexts []binding.Context, answers map[string][]byte) error
}

// Hook is one hook with its configuration.
type Hook struct {
	Name   string // its path below the folder of hooks, after the prefix of the folder
	Config *binding.Config

	folder Folder
	path   string
	limit  *rate.Limiter // nil is none

	mu            sync.Mutex
	subscriptions []*watch.Subscription // of Config.Kubernetes, in their order; nil before they are watched
	removed       bool
	subscribed    chan struct{} // closed when they are watched
}

// Add finds the hooks of a folder and asks each for its configuration. Its error joins those of all hooks; then no hook is
// added.
func (e *Engine) Add(ctx context.Context, f Folder) ([]*Hook, error) {
	dir, err := filepath.Abs(f.Dir)
	if err != nil {
		return nil, err
	}
	names, err := hook.Find(dir, e.log)
	if err != nil {
		return nil, err
	}
	hooks, errs := make([]*Hook, len(names)), make([]error, len(names))
	var group sync.WaitGroup
	slots := make(chan struct{}, configurers)
	for i, name := range names {
		hooks[i] = &Hook{Name: filepath.Join(f.Prefix, name), path: filepath.Join(dir, name), folder: f, subscribed: make(chan struct{})}
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			errs[i] = hooks[i].configure(ctx, &e.options.Runner, dir)
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.hooks = append(e.hooks, hooks...)
	e.mu.Unlock()
	for _, h := range hooks {
		e.telemetry.know(h)
	}
	return hooks, nil
}

// configurers is how many hooks are configured at once.
const configurers = 8

// configure runs the hook with --config.
func (h *Hook) configure(ctx context.Context, runner *hook.Runner, dir string) error {
	if h.folder.Scope != binding.Shell {
		dir = "" // hooks of modules work where the operator does (S-17)
	}
	printed, err := runner.Config(ctx, h.Name, h.path, dir)
	if err != nil {
		return err
	}
	if h.Config, err = binding.Parse(h.Name, printed, h.folder.Scope); err != nil {
		return err
	}
	for _, warning := range h.Config.Warnings {
		runner.Log.WarnContext(ctx, "the configuration of a hook has a key twice; the last one counts", "hook", h.Name, "keys", warning)
	}
	if h.Config.MinInterval > 0 {
		h.limit = rate.NewLimiter(rate.Every(h.Config.MinInterval), h.Config.Burst)
	}
	return nil
}

// InOrder returns the hooks that have a binding such as onStartup, by its order and then in their given order.
func InOrder(hooks []*Hook, t binding.Type) []*Hook {
	var all []*Hook
	for _, h := range hooks {
		if _, ok := h.Config.Orders[t]; ok {
			all = append(all, h)
		}
	}
	slices.SortStableFunc(all, func(a, b *Hook) int { return cmp.Compare(a.Config.Orders[t], b.Config.Orders[t]) })
	return all
}

// stopped reports whether the hook was removed.
func (h *Hook) stopped() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.removed
}

// watch begins to watch the objects of all bindings, once. Their events wait until each is released.
func (h *Hook) watch(subscribe func(i int, b binding.Kubernetes) *watch.Subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subscriptions != nil || h.removed || len(h.Config.Kubernetes) == 0 {
		return
	}
	for i, b := range h.Config.Kubernetes {
		h.subscriptions = append(h.subscriptions, subscribe(i, b))
	}
	close(h.subscribed)
}

// watched are the subscriptions of the kubernetes bindings, or nil before they are watched.
func (h *Hook) watched() []*watch.Subscription {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.subscriptions
}

// Snapshots are the objects of all kubernetes bindings, by the names of the bindings.
func (h *Hook) Snapshots() map[string][]binding.Object {
	all := map[string][]binding.Object{}
	for i, s := range h.watched() {
		name := h.Config.Kubernetes[i].Name
		all[name] = append(all[name], s.Objects()...)
	}
	return all
}

// fill adds the objects of contexts: those that exist when the hook starts (S-8).
func (h *Hook) fill(contexts []binding.Context) []binding.Context {
	filled := slices.Clone(contexts)
	subscriptions := h.watched()
	known := map[int][]binding.Object{} // every context of a run sees the same
	for _, c := range contexts {
		if c.Moment != binding.Synchronization {
			continue
		}
		for i, s := range subscriptions { // of a group, this may be the last context of several
			if i == c.Index || c.Group != "" && h.Config.Kubernetes[i].Group == c.Group {
				known[i] = s.Show()
			}
		}
	}
	objects := func(i int) []binding.Object {
		if _, ok := known[i]; !ok && i < len(subscriptions) {
			known[i] = subscriptions[i].Objects()
		}
		return known[i]
	}
	for at := range filled {
		c := &filled[at]
		if c.Moment == binding.Synchronization && c.Group == "" {
			c.Objects = objects(c.Index)
		}
		c.Snapshots = map[string][]binding.Object{}
		for i := range h.Config.Kubernetes {
			if name := h.Config.Kubernetes[i].Name; slices.Contains(c.Include, name) {
				c.Snapshots[name] = objects(i)
			}
		}
	}
	return filled
}
