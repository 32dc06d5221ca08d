package queue

import (
	"slices"

	"github.com/sealift/sealift/operator/binding"
)

// Combine joins the task, which is the head of its queue, with the runs of the same hook that follow it directly, and takes
// these out of the queue. It returns how many it took.
func (q *Queue) Combine(t *Task) (taken int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.tasks) == 0 || q.tasks[0] != t {
		return 0
	}
	for _, next := range q.tasks[1:] {
		if !joins(t, next) {
			break
		}
		taken++
	}
	contexts := slices.Clone(t.Contexts)
	for _, next := range q.tasks[1 : 1+taken] {
		contexts = append(contexts, next.Contexts...)
		t.Done = append(t.Done, next.Done...)
	}
	t.Contexts = collapse(contexts)
	q.tasks = slices.Delete(q.tasks, 1, 1+taken)
	return taken
}

// joins reports whether two runs may become one. Their permission to fail must be the same, so that no context is lost because
// of its neighbour's (S-12, with its correction).
func joins(t, next *Task) bool {
	if t.Hook == "" || next.Hook != t.Hook || t.Version == "v0" || next.AllowFailure != t.AllowFailure {
		return false
	}
	first, second := synchronizes(t), synchronizes(next)
	switch {
	case first && second:
		return t.JoinSynchronizations && next.JoinSynchronizations || group(t) != "" && group(t) == group(next)
	case first: // of a group, which only triggers reading snapshots, like the following one
		return group(t) != ""
	}
	return !second
}

func synchronizes(t *Task) bool {
	return slices.ContainsFunc(t.Contexts, func(c binding.Context) bool { return c.Moment == binding.Synchronization })
}

// group is the only group of all contexts of a task, or "".
func group(t *Task) string {
	for _, c := range t.Contexts {
		if c.Group != t.Contexts[0].Group {
			return ""
		}
	}
	if len(t.Contexts) == 0 {
		return ""
	}
	return t.Contexts[0].Group
}

// collapse keeps the last of adjacent contexts of one group, which all mean the same: read the snapshots.
func collapse(contexts []binding.Context) (kept []binding.Context) {
	for i, c := range contexts {
		if last := i+1 == len(contexts); last || c.Group == "" || contexts[i+1].Group != c.Group {
			kept = append(kept, c)
		}
	}
	return kept
}
