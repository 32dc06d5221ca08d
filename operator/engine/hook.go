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

// Hook is one hook with its configuration.
type Hook struct {
	Name   string // its path below the folder of hooks
	Config *binding.Config

	path  string
	limit *rate.Limiter // nil is none

	mu            sync.Mutex
	subscriptions []*watch.Subscription // of Config.Kubernetes, in their order; nil before they are watched
}

// load finds the hooks of a folder and asks each for its configuration. Its error joins those of all hooks.
func load(ctx context.Context, o Options) ([]*Hook, error) {
	dir, err := filepath.Abs(o.HooksDir)
	if err != nil {
		return nil, err
	}
	names, err := hook.Find(dir, o.Log)
	if err != nil {
		return nil, err
	}
	hooks, errs := make([]*Hook, len(names)), make([]error, len(names))
	var group sync.WaitGroup
	slots := make(chan struct{}, configurers)
	for i, name := range names {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			hooks[i], errs[i] = ask(ctx, o, dir, name)
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return hooks, nil
}

// configurers is how many hooks are asked at once.
const configurers = 8

func ask(ctx context.Context, o Options, dir, name string) (*Hook, error) {
	h := &Hook{Name: name, path: filepath.Join(dir, name)}
	printed, err := o.Runner.Config(ctx, name, h.path, dir)
	if err != nil {
		return nil, err
	}
	if h.Config, err = binding.Parse(name, printed, binding.Shell); err != nil {
		return nil, err
	}
	if len(h.Config.Validating)+len(h.Config.Mutating)+len(h.Config.Conversions) > 0 {
		return nil, errors.New("configuration of hook " + name + ": webhooks are not served; remove its kubernetesValidating, " +
			"kubernetesMutating and kubernetesCustomResourceConversion, or take the hook out of the folder")
	}
	if h.Config.MinInterval > 0 {
		h.limit = rate.NewLimiter(rate.Every(h.Config.MinInterval), h.Config.Burst)
	}
	return h, nil
}

// startOrder sorts the hooks that run at the start.
func startOrder(hooks []*Hook) []*Hook {
	var all []*Hook
	for _, h := range hooks {
		if _, ok := h.Config.Orders[binding.OnStartup]; ok {
			all = append(all, h)
		}
	}
	slices.SortStableFunc(all, func(a, b *Hook) int {
		return cmp.Compare(a.Config.Orders[binding.OnStartup], b.Config.Orders[binding.OnStartup])
	})
	return all
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

// fill gives contexts their objects: those that exist when the hook starts (S-8).
func (h *Hook) fill(contexts []binding.Context) []binding.Context {
	filled := slices.Clone(contexts)
	subscriptions := h.watched()
	known := map[int][]binding.Object{} // every context of a run sees the same
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
