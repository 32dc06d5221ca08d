package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/hook"
	"github.com/sealift/sealift/operator/metric"
	"github.com/sealift/sealift/operator/patch"
	"github.com/sealift/sealift/operator/queue"
)

// The variables that name the files of a run (S-7).
const (
	contextFile    = "BINDING_CONTEXT_PATH"
	metricsFile    = "METRICS_PATH"
	patchFile      = "KUBERNETES_PATCH_PATH"
	admissionFile  = "ADMISSION_RESPONSE_PATH"
	validatingFile = "VALIDATING_RESPONSE_PATH" // the older name of the same file
	conversionFile = "CONVERSION_RESPONSE_PATH"
)

// do runs a hook for the task at the head of a queue, and for the runs of the same hook behind it.
func (e *Engine) do(ctx context.Context, q *queue.Queue, t *queue.Task, h *Hook) error {
	if h.useless(t) { // it would hold up the queue until its rate lets it run
		return nil
	}
	if h.limit != nil {
		if err := h.limit.Wait(ctx); err != nil {
			return err
		}
	}
	if h.useless(t) { // tasks behind it may belong to a hook that replaced it
		return nil
	}
	q.Combine(t)
	labels := h.labels(t, q.Name)
	e.telemetry.waited(labels, t.Added())
	_, err := e.runOnce(ctx, h, t, labels)
	if ctx.Err() != nil {
		return err
	}
	if err != nil && t.AllowFailure {
		e.log.WarnContext(ctx, "a hook failed that may fail", "hook", h.Name, "queue", q.Name, "error", err)
		return nil
	}
	return err
}

// useless reports whether nobody wants a run any more: the hook was removed, or its owner is off and something has happened that
// would have led to the run.
func (h *Hook) useless(t *queue.Task) bool {
	happened := func(c binding.Context) bool { return c.Type == binding.OnKubernetes || c.Type == binding.OnSchedule }
	return h.stopped() || h.folder.Owner != nil && slices.ContainsFunc(t.Contexts, happened) && h.folder.Owner.Off()
}

// runOnce runs a hook as a process, and applies its result.
func (e *Engine) runOnce(ctx context.Context, h *Hook, t *queue.Task, labels prometheus.Labels) (*hook.Result, error) {
	command, err := h.command(t.Contexts)
	if err != nil {
		return &hook.Result{}, err
	}
	command.Why = []slog.Attr{slog.String("binding", labels[bindingLabel]), slog.String("event", labels[activationLabel]), slog.String("queue", labels[queueLabel])}
	result, err := e.options.Runner.Run(ctx, command)
	if ctx.Err() == nil {
		err = e.answer(ctx, h, t.Contexts, result, err)
	} else if err == nil { // nobody waits for the result any longer
		err = context.Cause(ctx)
	}
	e.telemetry.ran(h.folder.Scope, labels, result, err, t.AllowFailure)
	return result, err
}

// Program runs a program that is not a hook, such as the enabled script of a module, and measures it as one.
func (e *Engine) Program(ctx context.Context, c hook.Command, module, activation string) (*hook.Result, error) {
	result, err := e.options.Runner.Run(ctx, c)
	name := filepath.Base(c.Path)
	e.telemetry.ran(binding.Module, prometheus.Labels{
		moduleLabel: module, hookLabel: name, bindingLabel: name, activationLabel: activation, queueLabel: binding.MainQueue,
	}, result, err, false)
	return result, err
}

// command is a run of the hook with its files.
func (h *Hook) command(contexts []binding.Context) (hook.Command, error) {
	data, err := binding.Encode(h.Config.Version, h.fill(contexts))
	if err != nil {
		return hook.Command{}, err
	}
	c := hook.Command{
		Name: h.Name, Path: h.path, Dir: filepath.Dir(h.path),
		In:    map[string][]byte{contextFile: data},
		Out:   []string{metricsFile, patchFile, admissionFile, conversionFile},
		Alias: map[string]string{admissionFile: validatingFile},
	}
	if h.folder.Owner == nil {
		return c, nil
	}
	c.Dir = "" // hooks of modules work where the operator does (S-17)
	files, err := h.folder.Owner.Files()
	if err != nil {
		return c, fmt.Errorf("values for hook %s: %w", h.Name, err)
	}
	maps.Copy(c.In, files)
	c.Out = append(c.Out, h.folder.Owner.Answers()...)
	return c, nil
}

// answer applies a hook's result: first its metrics, then its object patches, then its owner's part. What a failed hook
// wrote is not used, except for a status that it asked to set in spite of that.
func (e *Engine) answer(ctx context.Context, h *Hook, contexts []binding.Context, result *hook.Result, failed error) error {
	patches, err := patch.Parse(result.Out[patchFile])
	if failed != nil {
		var kept []*patch.Operation
		for _, o := range patches {
			if o.AfterFailure {
				kept = append(kept, o)
			}
		}
		return errors.Join(failed, named(h, patch.Do(ctx, e.options.Patches, kept)))
	}
	operations, metricErr := metric.Parse(result.Out[metricsFile])
	if err := errors.Join(metricErr, err); err != nil {
		return named(h, err)
	}
	labels := map[string]string{"hook": h.Name}
	if h.folder.Module != "" {
		labels["module"] = h.folder.Module
	}
	if err := e.metrics.Apply(operations, labels); err != nil {
		return named(h, err)
	}
	if e.options.Removed != nil {
		if removed := patch.Removed(ctx, e.options.Patches, patches); len(removed) > 0 {
			e.options.Removed(removed)
		}
	}
	err = patch.Do(ctx, e.options.Patches, patches)
	if err == nil && e.options.Made != nil {
		if made := patch.Made(ctx, e.options.Patches, patches); len(made) > 0 {
			e.options.Made(made)
		}
	}
	if err != nil || h.folder.Owner == nil {
		return named(h, err)
	}
	return named(h, h.folder.Owner.Take(ctx, h, contexts, result.Out))
}

// named names the hook with the invalid result.
func named(h *Hook, err error) error {
	if err == nil {
		return nil
	}
	return &answerError{h.Name, err}
}

type answerError struct {
	hook string
	err  error
}

func (e *answerError) Error() string { return "answer of hook " + e.hook + ": " + e.err.Error() }
func (e *answerError) Unwrap() error { return e.err }
