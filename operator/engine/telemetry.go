package engine

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/hook"
	"github.com/sealift/sealift/operator/queue"
)

// tickTime is the period of the metric live_ticks.
const tickTime = 10 * time.Second

// The labels of runs, bindings and hooks. Those of shell mode know no module.
const (
	moduleLabel     = "module"
	hookLabel       = "hook"
	bindingLabel    = "binding"
	activationLabel = "activation"
	queueLabel      = "queue"
	kindLabel       = "kind"
)

// telemetry has the engine's own metrics.
type telemetry struct {
	registry *prometheus.Registry
	runs     map[binding.Scope]*runs
	wait     *prometheus.CounterVec
	ticks    prometheus.Counter
	bindings *prometheus.GaugeVec
	meters   *meters
	// placeLabels identify bindings, hookLabels identify hooks.
	placeLabels, hookLabels []string
}

// runs measures the runs of the hooks of a scope.
type runs struct {
	labels                      []string
	seconds, userCPU, systemCPU *prometheus.HistogramVec
	maxRSS                      *prometheus.GaugeVec
	succeeded, failed, forgiven *prometheus.CounterVec
}

func newRuns(prefix string, labels ...string) *runs {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: prometheus.ExponentialBuckets(0.005, 2, 15)}, labels)
	}
	return &runs{
		labels:    labels,
		seconds:   histogram("seconds", "Time that a run of a hook took."),
		userCPU:   histogram("user_cpu_seconds", "Processor time of a run in user mode."),
		systemCPU: histogram("sys_cpu_seconds", "Processor time of a run in the kernel."),
		maxRSS:    prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "max_rss_bytes", Help: "Most memory of the last run."}, labels),
		succeeded: counter("success_total", "Runs of hooks that succeeded."),
		failed:    counter("errors_total", "Runs of hooks that failed and are tried again."),
		forgiven:  counter("allowed_errors_total", "Runs of hooks that failed and may fail."),
	}
}

func (r *runs) collectors() []prometheus.Collector {
	return []prometheus.Collector{r.seconds, r.userCPU, r.systemCPU, r.maxRSS, r.succeeded, r.failed, r.forgiven}
}

func newTelemetry(e *Engine, prefix string) *telemetry {
	t := &telemetry{registry: prometheus.NewRegistry(), runs: map[binding.Scope]*runs{}}
	t.placeLabels, t.hookLabels = []string{hookLabel, bindingLabel, queueLabel}, []string{hookLabel}
	if e.options.Modules {
		t.placeLabels, t.hookLabels = append(t.placeLabels, moduleLabel), append(t.hookLabels, moduleLabel)
		t.runs[binding.Global] = newRuns(prefix+"global_hook_run_", hookLabel, bindingLabel, activationLabel, queueLabel)
		t.runs[binding.Module] = newRuns(prefix+"module_hook_run_", moduleLabel, hookLabel, bindingLabel, activationLabel, queueLabel)
	} else {
		t.runs[binding.Shell] = newRuns(prefix+"hook_run_", hookLabel, bindingLabel, queueLabel)
	}
	t.wait = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "task_wait_in_queue_seconds_total", Help: "Time that runs waited in their queue.",
	}, t.placeLabels)
	t.ticks = prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "live_ticks", Help: "Rises every 10 seconds."})
	t.bindings = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "binding_count", Help: "Bindings of a hook."}, t.hookLabels)
	t.meters = newMeters(prefix, t.placeLabels, t.hookLabels)
	t.registry.MustRegister(t.wait, t.ticks, t.bindings, &sizes{e, prefix})
	t.registry.MustRegister(t.meters.collectors()...)
	if e.options.Requests != nil {
		t.registry.MustRegister(e.options.Requests)
	}
	for _, r := range t.runs {
		t.registry.MustRegister(r.collectors()...)
	}
	return t
}

// labels are all labels of a run.
func (h *Hook) labels(t *queue.Task, queueName string) prometheus.Labels {
	activation := t.Activation
	if activation == "" {
		activation = string(t.Contexts[0].Type)
	}
	return prometheus.Labels{
		moduleLabel: h.folder.Module, hookLabel: h.Name, bindingLabel: t.Contexts[0].Binding, activationLabel: activation, queueLabel: queueName,
	}
}

// pick selects the labels of a metric.
func pick(all prometheus.Labels, names []string) prometheus.Labels {
	picked := make(prometheus.Labels, len(names))
	for _, name := range names {
		picked[name] = all[name]
	}
	return picked
}

// own are the labels of a hook.
func (h *Hook) own(names []string) prometheus.Labels {
	return pick(prometheus.Labels{hookLabel: h.Name, moduleLabel: h.folder.Module}, names)
}

// know counts the bindings of a hook.
func (t *telemetry) know(h *Hook) {
	count := 0
	for _, n := range h.Config.Counts() {
		count += n
	}
	t.bindings.With(h.own(t.hookLabels)).Set(float64(count))
}

// forget drops the metrics of a removed hook.
func (t *telemetry) forget(h *Hook) {
	t.bindings.Delete(h.own(t.hookLabels))
}

// waited notes how long a run was in its queue. Runs that are part of another task were in none.
func (t *telemetry) waited(l prometheus.Labels, since time.Time) {
	if !since.IsZero() {
		t.wait.With(pick(l, t.placeLabels)).Add(time.Since(since).Seconds())
	}
}

// ran records a finished run.
func (t *telemetry) ran(scope binding.Scope, l prometheus.Labels, result *hook.Result, err error, allowed bool) {
	r := t.runs[scope]
	l = pick(l, r.labels)
	r.seconds.With(l).Observe(result.Duration.Seconds())
	r.userCPU.With(l).Observe(result.User.Seconds())
	r.systemCPU.With(l).Observe(result.System.Seconds())
	r.maxRSS.With(l).Set(float64(result.MaxRSS))
	switch {
	case err == nil:
		r.succeeded.With(l).Inc()
	case allowed:
		r.forgiven.With(l).Inc()
	default:
		r.failed.With(l).Inc()
	}
}

// tick shows that the process is alive.
func (t *telemetry) tick(ctx context.Context) {
	poll.Repeat(ctx, func(context.Context) time.Duration {
		t.ticks.Inc()
		return tickTime
	})
}

// sizes are measured when Prometheus asks.
type sizes struct {
	engine *Engine
	prefix string
}

// Describe sends nothing: queues and bindings change with the hooks.
func (*sizes) Describe(chan<- *prometheus.Desc) {}

// Collect measures the queues and the snapshots.
func (s *sizes) Collect(out chan<- prometheus.Metric) {
	length := prometheus.NewDesc(s.prefix+"tasks_queue_length", "Tasks in a queue.", []string{queueLabel}, nil)
	for name, n := range s.engine.queues.Lengths() {
		out <- prometheus.MustNewConstMetric(length, prometheus.GaugeValue, float64(n), name)
	}
	labels := s.engine.telemetry.placeLabels
	objects := prometheus.NewDesc(s.prefix+"kube_snapshot_objects", "Objects in the snapshot of a binding.", labels, nil)
	size := prometheus.NewDesc(s.prefix+"kube_snapshot_bytes", "Bytes of the objects and filter results of a binding, as JSON.", labels, nil)
	type place struct{ binding, queue string }
	type values struct{ objects, bytes int }
	for _, h := range s.engine.Hooks() {
		all := map[place]values{} // bindings of one name count together
		for i, sub := range h.watched() {
			b := &h.Config.Kubernetes[i]
			n, bytes := sub.Size()
			one := all[place{b.Name, b.Queue}]
			all[place{b.Name, b.Queue}] = values{one.objects + n, one.bytes + bytes}
		}
		for p, v := range all {
			texts := make([]string, len(labels))
			for i, label := range labels {
				texts[i] = map[string]string{hookLabel: h.Name, bindingLabel: p.binding, queueLabel: p.queue, moduleLabel: h.folder.Module}[label]
			}
			out <- prometheus.MustNewConstMetric(objects, prometheus.GaugeValue, float64(v.objects), texts...)
			out <- prometheus.MustNewConstMetric(size, prometheus.GaugeValue, float64(v.bytes), texts...)
		}
	}
}
