package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sealift/sealift/operator/engine"
	"github.com/sealift/sealift/operator/lifecycle"
)

// work is an operator's job: to run the hooks of a folder, or modules.
type work struct {
	*engine.Engine

	modules *lifecycle.Operator // nil in shell mode
	// webhooks returns why the API server does not call all hooks.
	webhooks func() error
}

// load reads hooks, and modules if any. changed is called when hooks were added or removed since. webhooks returns why the API
// server does not call all hooks.
func load(ctx context.Context, o Options, changed func(), webhooks func() error) (*work, error) {
	if o.Modules == nil {
		e, err := engine.Load(ctx, o.Options)
		return &work{Engine: e, webhooks: webhooks}, err
	}
	settings := *o.Modules
	settings.Options, settings.HooksChanged = o.Options, changed
	m, err := lifecycle.Load(ctx, settings)
	if err != nil {
		return nil, err
	}
	return &work{m.Engine(), m, webhooks}, nil
}

// Run works until ctx ends.
func (w *work) Run(ctx context.Context) {
	if w.modules != nil {
		w.modules.Run(ctx)
		return
	}
	w.Engine.Run(ctx)
}

// Standby prepares for Run, which another operator may do now: hooks answer reviews until ctx ends.
func (w *work) Standby(ctx context.Context) {
	if w.modules != nil {
		w.modules.Standby(ctx)
		return
	}
	w.Engine.Standby(ctx)
}

// knowsHooks reports whether all hooks are known that have webhooks. Until then, those that the API server calls stay.
func (w *work) knowsHooks() bool { return w.modules == nil || w.modules.Discovered() }

// notReady returns what the start still waits for, or why hooks are not called after it. It returns nil if everything is ready.
func (w *work) notReady() error {
	switch {
	case w.modules != nil && !w.modules.Ready():
		return errors.New("the operator is still starting: not all modules have run; /status/converge shows the progress")
	case w.modules == nil && !w.Ready():
		return errors.New("the operator is still starting: hooks with onStartup run, or objects are synchronized")
	}
	if err := w.webhooks(); err != nil {
		return fmt.Errorf("the API server does not call all hooks: %w", err)
	}
	return nil
}

// Metrics gathers the operator's own metrics, and those that hooks report.
func (w *work) Metrics() (own, hooks prometheus.Gatherer) {
	if w.modules != nil {
		return w.modules.Metrics()
	}
	return w.Engine.Metrics()
}

// convergeStatus answers how far modules are, in addon-operator's words.
func (w *work) convergeStatus(out http.ResponseWriter, r *http.Request) {
	s := w.modules.Status()
	if r.URL.Query().Get("output") == "json" {
		out.Header().Set("Content-Type", "application/json")
		write(out, "json", s, nil)
		return
	}
	switch {
	case s.NotStarted:
		fmt.Fprintln(out, "STARTUP_CONVERGE_NOT_STARTED")
	case !s.Started:
		fmt.Fprintf(out, "STARTUP_CONVERGE_IN_PROGRESS: %d tasks\n", s.Starting)
	case !s.Waiting:
		fmt.Fprintf(out, "STARTUP_CONVERGE_DONE\nCONVERGE_IN_PROGRESS: %d tasks\n", s.InProgress)
	default:
		fmt.Fprintln(out, "STARTUP_CONVERGE_DONE\nCONVERGE_WAIT_TASK")
	}
}
