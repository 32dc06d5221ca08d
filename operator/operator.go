// Package operator runs hooks of Flant's shell-operator and modules of addon-operator unchanged. It serves their webhooks,
// /healthz, /readyz and /metrics to the cluster, and a debug socket to administrators.
package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sealift/sealift/internal/scratch"
	"github.com/sealift/sealift/operator/engine"
	"github.com/sealift/sealift/operator/hook"
	"github.com/sealift/sealift/operator/lifecycle"
	"github.com/sealift/sealift/operator/webhook"
)

// headerTimeout ends a connection that asks nothing.
const headerTimeout = 5 * time.Second

// Options of an operator.
type Options struct {
	engine.Options

	// Listen is the address of /healthz, /readyz and /metrics, such as 0.0.0.0:9115.
	Listen string
	// Listening is called with the address once it is open, which matters for port 0. It may be nil.
	Listening func(address string)
	// Webhooks configures the endpoints at which hooks answer the API server. Cluster and Log are those of the engine.
	Webhooks webhook.Options
	// Replicas means that other operators run, too. Nil means that this is the only one.
	Replicas *Replicas
	// DebugSocket is the path of the socket for inspection commands; "" is none.
	DebugSocket string
	// Modules is the search path for modules, whose hooks run instead of those of a folder. Its engine's options have no effect.
	Modules *lifecycle.Options
	// LogLevel lets 'operator config set' change the level of the log. It may be nil.
	LogLevel *slog.LevelVar
}

// Run loads the hooks and runs them until ctx ends. It fails if a hook has no valid configuration.
func Run(ctx context.Context, o Options) (err error) {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	var self *replica
	if o.Replicas != nil {
		if err := o.Replicas.check(); err != nil {
			return err
		}
		self = &replica{Replicas: *o.Replicas, cluster: o.Cluster, log: o.Log}
		if o.Modules != nil {
			o.Webhooks.Leader = self.leader
		}
	}
	own, err := scratch.NewIn(cmp.Or(o.Runner.TempDir, os.TempDir()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, own.Remove()) }()
	if err := o.prepareWorkdir(own); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o.Webhooks.Cluster, o.Webhooks.Log = o.Cluster, o.Log
	var e *work
	o.Webhooks.Leads = func() bool { return (self == nil || self.leads.Load()) && e.knowsHooks() }
	webhooks := webhook.New(ctx, o.Webhooks)
	defer webhooks.Wait()
	defer cancel()
	e, err = load(ctx, o, func() {
		if err := webhooks.Set(e.Webhooks()); err != nil {
			o.Log.ErrorContext(ctx, "cannot serve the webhooks of hooks that have come or gone", "error", err)
		}
	}, webhooks.Err)
	if err != nil {
		return err
	}
	if err := webhooks.Check(ctx, e.Webhooks()); err != nil {
		return err
	}
	for _, h := range e.Hooks() {
		o.Log.InfoContext(ctx, "hook loaded", "hook", h.Name, "version", h.Config.Version)
	}
	stop, err := o.servePublic(ctx, e, self)
	if err != nil {
		return err
	}
	defer stop()
	if o.DebugSocket != "" {
		stop, err := serveDebug(ctx, o.DebugSocket, debugHandler(e, o.LogLevel))
		if err != nil {
			return err
		}
		defer stop()
	}
	if self != nil {
		e.Standby(ctx)
	}
	if err := webhooks.Set(e.Webhooks()); err != nil {
		return err
	}
	if self == nil {
		e.Run(ctx)
		return nil
	}
	return self.lead(ctx, e.Run)
}

// servePublic serves metrics and health until stop is called, and announces the port to other replicas.
func (o *Options) servePublic(ctx context.Context, e *work, self *replica) (stop func(), err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("serve /healthz and /metrics: %w; choose another address or port", err)
	}
	address := listener.Addr().String()
	if self != nil {
		if _, self.port, err = net.SplitHostPort(address); err != nil {
			listener.Close()
			return nil, err
		}
	}
	public := &http.Server{Handler: publicHandler(e, self), ReadHeaderTimeout: headerTimeout}
	go func() { _ = public.Serve(listener) }()
	if o.Listening != nil {
		o.Listening(address)
	}
	return func() { public.Close() }, nil
}

// prepareWorkdir prepares the folder for the files of hooks, and the library that they read.
func (o *Options) prepareWorkdir(own *scratch.Dir) error {
	if err := os.Chmod(own.Path(), 0o711); err != nil { // hooks may run as another user
		return err
	}
	if !o.Runner.KeepFiles {
		o.Runner.TempDir = own.Path()
	}
	framework := own.File("framework")
	if err := os.Mkdir(framework, 0o755); err != nil {
		return err
	}
	if os.Getenv(hook.FrameworkDir) == "" {
		o.Runner.Set = append(o.Runner.Set, hook.FrameworkDir+"="+framework)
	}
	return hook.WriteShellLibrary(framework)
}

// publicHandler answers the cluster. self is nil without other replicas.
func publicHandler(e *work, self *replica) http.Handler {
	own, hooks := e.Metrics()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, req *http.Request) {
		if self != nil && !self.leads.Load() {
			self.askLeader(w, req)
			return
		}
		if err := e.notReady(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	if e.modules != nil {
		mux.HandleFunc("GET /status/converge", e.convergeStatus)
	}
	// A metric of a hook that has the name of one of ours must not hide all the others.
	all := promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}
	mux.Handle("GET /metrics", promhttp.HandlerFor(prometheus.Gatherers{own, hooks}, all))
	mux.Handle("GET /metrics/hooks", promhttp.HandlerFor(hooks, all))
	return mux
}
