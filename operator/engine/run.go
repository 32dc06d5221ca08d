package engine

import (
	"context"
	"errors"
	"path/filepath"
	"time"

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
	if h.limit != nil {
		if err := h.limit.Wait(ctx); err != nil {
			return err
		}
	}
	q.Combine(t)
	labels := runLabels{hook: h.Name, binding: t.Contexts[0].Binding, queue: q.Name}
	e.telemetry.waited(labels, time.Since(t.Added()))
	data, err := binding.Encode(h.Config.Version, h.fill(t.Contexts))
	if err != nil {
		return err
	}
	result, err := e.options.Runner.Run(ctx, hook.Command{
		Name: h.Name, Path: h.path, Dir: filepath.Dir(h.path),
		In:    map[string][]byte{contextFile: data},
		Out:   []string{metricsFile, patchFile, admissionFile, conversionFile},
		Alias: map[string]string{admissionFile: validatingFile},
	})
	if ctx.Err() != nil {
		return err
	}
	err = e.answer(ctx, h, result, err)
	e.telemetry.ran(labels, result, err, t.AllowFailure)
	if err != nil && t.AllowFailure {
		e.log.WarnContext(ctx, "a hook failed that may fail", "hook", h.Name, "queue", q.Name, "error", err)
		return nil
	}
	return err
}

// answer does what a hook wrote: first its metrics, then its object patches. What a failed hook wrote is not used,
// except for a status that it asked to set in spite of that.
func (e *Engine) answer(ctx context.Context, h *Hook, result *hook.Result, failed error) error {
	patches, err := patch.Parse(result.Out[patchFile])
	if failed != nil {
		var kept []*patch.Operation
		for _, o := range patches {
			if o.AfterFailure {
				kept = append(kept, o)
			}
		}
		return errors.Join(failed, named(h, patch.Do(ctx, e.options.Cluster, kept)))
	}
	operations, metricErr := metric.Parse(result.Out[metricsFile])
	if err := errors.Join(metricErr, err); err != nil {
		return named(h, err)
	}
	if err := e.metrics.Apply(operations, map[string]string{"hook": h.Name}); err != nil {
		return named(h, err)
	}
	return named(h, patch.Do(ctx, e.options.Cluster, patches))
}

// named says which hook's answer is wrong.
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
