package lifecycle

import (
	"context"
	"slices"

	"github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/engine"
)

// Standby prepares for Run, which another operator may do now. Until ctx ends, the webhooks of all modules can be answered, with
// values of files and of the ConfigMap. Which of them the API server calls is the leader's choice: it knows which modules
// are on.
func (o *Operator) Standby(ctx context.Context) {
	o.engine.Standby(ctx)
	flags, config := o.store.hookFlags(), o.store.inForce()
	units := slices.Clone(o.units)
	slices.SortStableFunc(units, func(a, b *unit) int { // of two webhooks with one name, that of an enabled module
		onA, _ := o.store.found.Enabled(a.Module, flags, config)
		onB, _ := o.store.found.Enabled(b.Module, flags, config)
		switch {
		case onA == onB:
			return 0
		case onA:
			return -1
		}
		return 1
	})
	taken := map[string]bool{}
	for _, h := range o.global {
		claim(taken, h)
	}
	for _, u := range units {
		o.prepare(ctx, u, taken)
	}
	o.engine.WatchForWebhooks()
	o.following = true
	go o.followConfig(ctx)
}

// prepare loads the hooks of a module if they have webhooks. A module without configurations is the leader's problem.
func (o *Operator) prepare(ctx context.Context, u *unit, taken map[string]bool) {
	folder, ok := u.folder()
	if !ok {
		return
	}
	hooks, err := o.engine.Add(ctx, folder)
	if err != nil {
		o.log.WarnContext(ctx, "hooks of a module cannot be loaded, so this operator does not answer their webhooks while it stands by", "module", u.Name, "error", err)
		return
	}
	names, free := 0, true
	for _, h := range hooks {
		n, ok := claim(taken, h)
		names, free = names+n, free && ok
	}
	if names == 0 || !free {
		o.drop(hooks)
		return
	}
	u.prepared = hooks
}

// claim reserves the names of a hook's webhooks. It returns how many there are, and whether all were free.
func claim(taken map[string]bool, h *engine.Hook) (n int, free bool) {
	free = true
	for _, all := range [][]binding.Admission{h.Config.Validating, h.Config.Mutating} {
		for _, b := range all {
			free = free && !taken[b.Name]
			taken[b.Name] = true
			n++
		}
	}
	return n + len(h.Config.Conversions), free
}

func (o *Operator) drop(hooks []*engine.Hook) {
	for _, h := range hooks {
		o.engine.Remove(h)
	}
}

// dropPrepared ends the hooks of modules that a discovery has found to be off.
func (o *Operator) dropPrepared() {
	dropped := false
	for _, u := range o.units {
		if u.prepared != nil {
			o.drop(u.prepared)
			u.prepared, dropped = nil, true
		}
	}
	if dropped {
		o.hooksChanged()
	}
}
