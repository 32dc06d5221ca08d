package operator

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/engine"
	"github.com/sealift/sealift/operator/queue"
)

// queueStates lists the queues with tasks, or all; name is list, or main for only the main queue. It returns nil for other names.
func queueStates(e *engine.Engine, name string, empty bool) []queue.State {
	all := e.Queues().States()
	switch name {
	case "list":
		if !empty {
			all = slices.DeleteFunc(all, func(q queue.State) bool { return len(q.Tasks) == 0 && q.Name != binding.MainQueue })
		}
		return all
	case binding.MainQueue:
		return slices.DeleteFunc(all, func(q queue.State) bool { return q.Name != binding.MainQueue })
	}
	return nil
}

func queuesText(all []queue.State) string {
	var out strings.Builder
	for _, q := range all {
		fmt.Fprintf(&out, "queue %s: %d tasks\n", q.Name, len(q.Tasks))
		for i, t := range q.Tasks {
			fmt.Fprintf(&out, "  %d. %s", i+1, t.Name)
			if len(t.Bindings) > 0 {
				fmt.Fprintf(&out, " for %s", strings.Join(t.Bindings, ", "))
			}
			fmt.Fprintf(&out, ", here for %s", t.Waiting)
			if t.Failures > 0 {
				fmt.Fprintf(&out, ", failed %d times: %s", t.Failures, strings.ReplaceAll(t.Error, "\n", "; "))
			}
			fmt.Fprintln(&out)
		}
	}
	return out.String()
}

// hookState is a hook and how often it is bound.
type hookState struct {
	Name     string         `json:"name"`
	Version  string         `json:"configVersion"`
	Bindings map[string]int `json:"bindings"`
}

func hookStates(e *engine.Engine) []hookState {
	hooks := e.Hooks()
	all := make([]hookState, len(hooks))
	for i, h := range hooks {
		bindings := map[string]int{}
		for t, n := range h.Config.Counts() {
			bindings[string(t)] = n
		}
		all[i] = hookState{h.Name, h.Config.Version, bindings}
	}
	return all
}

func hooksText(all []hookState) string {
	var out strings.Builder
	for _, h := range all {
		var parts []string
		for _, t := range slices.Sorted(maps.Keys(h.Bindings)) {
			parts = append(parts, fmt.Sprintf("%s %d", t, h.Bindings[t]))
		}
		fmt.Fprintf(&out, "%s: %s\n", h.Name, strings.Join(parts, ", "))
	}
	return out.String()
}
