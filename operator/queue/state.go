package queue

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/sealift/sealift/operator/binding"
)

// State is a snapshot of a queue.
type State struct {
	Name  string      `json:"name"`
	Tasks []TaskState `json:"tasks"`
}

// TaskState is one task of it, the head first.
type TaskState struct {
	Name     string        `json:"name"`
	Hook     string        `json:"hook,omitempty"`
	Bindings []string      `json:"bindings,omitempty"`
	Contexts int           `json:"contexts,omitempty"`
	Waiting  time.Duration `json:"waiting"`
	Failures int           `json:"failures,omitempty"`
	Error    string        `json:"error,omitempty"`
}

// States lists all queues: main first, then the others by name.
func (s *Set) States() []State {
	s.mu.Lock()
	queues := slices.Collect(maps.Values(s.queues))
	s.mu.Unlock()
	slices.SortFunc(queues, func(a, b *Queue) int { return cmp.Compare(a.rank(), b.rank()) })
	all := make([]State, len(queues))
	for i, q := range queues {
		all[i] = q.state()
	}
	return all
}

// rank sorts queues.
func (q *Queue) rank() string {
	if q.Name == binding.MainQueue {
		return ""
	}
	return q.Name
}

func (q *Queue) state() State {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := State{Name: q.Name, Tasks: make([]TaskState, 0, len(q.tasks))}
	for _, t := range q.tasks {
		one := TaskState{
			Name: t.Name, Hook: t.Hook, Contexts: len(t.Contexts), Failures: t.failures,
			Waiting: time.Since(t.added).Round(time.Second),
		}
		for _, c := range t.Contexts {
			if !slices.Contains(one.Bindings, c.Binding) {
				one.Bindings = append(one.Bindings, c.Binding)
			}
		}
		if t.err != nil {
			one.Error = t.err.Error()
		}
		all.Tasks = append(all.Tasks, one)
	}
	return all
}
