package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/queue"
	"github.com/sealift/sealift/operator/webhook"
)

// Webhooks are the hooks that answer the API server. They run outside the queues, as soon as they are requested.
func (e *Engine) Webhooks() (all []webhook.Hook) {
	for _, h := range e.Hooks() {
		if len(h.Config.Validating)+len(h.Config.Mutating)+len(h.Config.Conversions) > 0 {
			all = append(all, webhook.Hook{Name: h.Name, Config: h.Config, Run: func(ctx context.Context, c binding.Context) ([]byte, error) {
				return e.review(ctx, h, c)
			}})
		}
	}
	return all
}

// WatchForWebhooks begins to watch what reviews include, before hooks with onStartup run. The engine must be serving.
func (e *Engine) WatchForWebhooks() {
	for _, h := range e.Hooks() {
		if h.needsSnapshots() {
			e.Watch(h)
		}
	}
}

// needsSnapshots reports whether a review of the hook includes objects.
func (h *Hook) needsSnapshots() bool {
	includes := func(b binding.Common) bool { return len(b.Include) > 0 }
	return slices.ContainsFunc(h.Config.Validating, func(b binding.Admission) bool { return includes(b.Common) }) ||
		slices.ContainsFunc(h.Config.Mutating, func(b binding.Admission) bool { return includes(b.Common) }) ||
		slices.ContainsFunc(h.Config.Conversions, func(b binding.Conversion) bool { return includes(b.Common) })
}

// review runs a hook for one review, and applies its metrics and object patches. It does so also while the hook's owner is off: until the
// hook ends, the API server asks, and would refuse requests without an answer.
func (e *Engine) review(ctx context.Context, h *Hook, c binding.Context) ([]byte, error) {
	if h.limit != nil {
		if err := h.limit.Wait(ctx); err != nil { // at once, if its turn comes after the end of ctx
			return nil, fmt.Errorf("%w: settings.executionMinInterval: %w", webhook.ErrNoTime, err)
		}
	}
	if err := h.await(ctx, c.Include); err != nil {
		return nil, err
	}
	t := &queue.Task{Contexts: []binding.Context{c}} // of no queue
	result, err := e.runOnce(ctx, h, t, h.labels(t, ""))
	if c.Type == binding.OnConversion {
		return result.Out[conversionFile], err
	}
	return result.Out[admissionFile], err
}

// await waits until the objects of these bindings have been listed. A hook that judges by a snapshot must not see an empty one
// because the operator has just started.
func (h *Hook) await(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	select {
	case <-h.subscribed:
	case <-ctx.Done():
		return fmt.Errorf("the objects that it includes are not watched yet: %w", context.Cause(ctx))
	}
	for i, s := range h.watched() {
		if b := &h.Config.Kubernetes[i]; slices.Contains(names, b.Name) {
			select {
			case <-s.Synced():
			case <-ctx.Done():
				return fmt.Errorf("the objects of binding %s are not listed yet: %w", b.Name, context.Cause(ctx))
			}
		}
	}
	return nil
}
