package engine

import (
	"slices"
	"sync"

	"github.com/robfig/cron/v3"

	"github.com/sealift/sealift/operator/binding"
)

// clock ticks for crontabs. Bindings with the same crontab share one tick, so that a hook runs once for all of them (S-4).
type clock struct {
	cron    *cron.Cron
	mu      sync.Mutex
	entries map[string][]entry // by crontab, in the order in which hooks were enabled
}

// entry is a hook's binding for one crontab.
type entry struct {
	hook  *Hook
	binds []*binding.Schedule
}

// Schedule starts the schedules of a hook.
func (e *Engine) Schedule(h *Hook) error {
	e.clock.mu.Lock()
	defer e.clock.mu.Unlock()
	fresh := map[string]bool{}
	for i := range h.Config.Schedules {
		s := &h.Config.Schedules[i]
		all, known := e.clock.entries[s.Crontab]
		if last := len(all) - 1; known && last >= 0 && all[last].hook == h {
			all[last].binds = append(all[last].binds, s)
			continue
		}
		e.clock.entries[s.Crontab] = append(all, entry{h, []*binding.Schedule{s}})
		fresh[s.Crontab] = !known
	}
	for crontab, isNew := range fresh {
		if !isNew {
			continue
		}
		times, err := binding.ParseCrontab(crontab)
		if err != nil {
			return err
		}
		e.clock.cron.Schedule(times, cron.FuncJob(func() { e.tick(crontab) }))
	}
	return nil
}

// unschedule ends the ticks of a hook.
func (e *Engine) unschedule(h *Hook) {
	e.clock.mu.Lock()
	defer e.clock.mu.Unlock()
	for crontab, all := range e.clock.entries {
		e.clock.entries[crontab] = slices.DeleteFunc(all, func(one entry) bool { return one.hook == h })
	}
}

// tick queues runs: one for all bindings of a hook that share queue and permission to fail.
func (e *Engine) tick(crontab string) {
	e.clock.mu.Lock()
	defer e.clock.mu.Unlock()
	type where struct {
		queue        string
		allowFailure bool
	}
	for _, one := range e.clock.entries[crontab] {
		contexts := map[where][]binding.Context{}
		var order []where
		for _, s := range one.binds {
			w := where{s.Queue, s.AllowFailure}
			if contexts[w] == nil {
				order = append(order, w)
			}
			contexts[w] = append(contexts[w], binding.Context{Type: binding.OnSchedule, Binding: s.Name, Group: s.Group, Include: s.Include})
		}
		for _, w := range order {
			e.queues.Add(w.queue, e.Task(one.hook, binding.Common{AllowFailure: w.allowFailure}, contexts[w]...))
		}
	}
}
