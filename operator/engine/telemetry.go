package engine

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sealift/sealift/operator/hook"
)

// tickTime is the period of the metric live_ticks.
const tickTime = 10 * time.Second

// telemetry is what the engine measures of itself.
type telemetry struct {
	registry                    *prometheus.Registry
	seconds, userCPU, systemCPU *prometheus.HistogramVec
	maxRSS                      *prometheus.GaugeVec
	succeeded, failed, forgiven *prometheus.CounterVec
	wait                        *prometheus.CounterVec
	ticks                       prometheus.Counter
	bindings                    *prometheus.GaugeVec
}

// runLabels tell the runs of hooks apart.
type runLabels struct{ hook, binding, queue string }

func (l runLabels) values() []string { return []string{l.hook, l.binding, l.queue} }

func newTelemetry(e *Engine, prefix string) *telemetry {
	labels := []string{"hook", "binding", "queue"}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: prometheus.ExponentialBuckets(0.005, 2, 15)}, labels)
	}
	t := &telemetry{
		registry:  prometheus.NewRegistry(),
		seconds:   histogram("hook_run_seconds", "Time that a run of a hook took."),
		userCPU:   histogram("hook_run_user_cpu_seconds", "Processor time of a run in user mode."),
		systemCPU: histogram("hook_run_sys_cpu_seconds", "Processor time of a run in the kernel."),
		maxRSS:    prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "hook_run_max_rss_bytes", Help: "Most memory of the last run."}, labels),
		succeeded: counter("hook_run_success_total", "Runs of hooks that succeeded."),
		failed:    counter("hook_run_errors_total", "Runs of hooks that failed and are tried again."),
		forgiven:  counter("hook_run_allowed_errors_total", "Runs of hooks that failed and may fail."),
		wait:      counter("task_wait_in_queue_seconds_total", "Time that runs waited in their queue."),
		ticks:     prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "live_ticks", Help: "Rises every 10 seconds."}),
		bindings:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "binding_count", Help: "Bindings of a hook."}, []string{"hook"}),
	}
	t.registry.MustRegister(t.seconds, t.userCPU, t.systemCPU, t.maxRSS, t.succeeded, t.failed, t.forgiven, t.wait, t.ticks, t.bindings,
		&sizes{e, prefix})
	for _, h := range e.Hooks {
		t.bindings.WithLabelValues(h.Name).Set(float64(len(h.Config.Orders) + len(h.Config.Schedules) + len(h.Config.Kubernetes)))
	}
	return t
}

func (t *telemetry) waited(l runLabels, d time.Duration) {
	t.wait.WithLabelValues(l.values()...).Add(d.Seconds())
}

// ran notes a run that is over.
func (t *telemetry) ran(l runLabels, r *hook.Result, err error, allowed bool) {
	v := l.values()
	t.seconds.WithLabelValues(v...).Observe(r.Duration.Seconds())
	t.userCPU.WithLabelValues(v...).Observe(r.User.Seconds())
	t.systemCPU.WithLabelValues(v...).Observe(r.System.Seconds())
	t.maxRSS.WithLabelValues(v...).Set(float64(r.MaxRSS))
	switch {
	case err == nil:
		t.succeeded.WithLabelValues(v...).Inc()
	case allowed:
		t.forgiven.WithLabelValues(v...).Inc()
	default:
		t.failed.WithLabelValues(v...).Inc()
	}
}

// tick shows that the process is alive.
func (t *telemetry) tick(ctx context.Context) {
	ticker := time.NewTicker(tickTime)
	defer ticker.Stop()
	for {
		t.ticks.Inc()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// sizes are measured when Prometheus asks.
type sizes struct {
	engine *Engine
	prefix string
}

// Describe tells nothing: queues and bindings come with the hooks.
func (*sizes) Describe(chan<- *prometheus.Desc) {}

// Collect measures the queues and the snapshots.
func (s *sizes) Collect(out chan<- prometheus.Metric) {
	length := prometheus.NewDesc(s.prefix+"tasks_queue_length", "Tasks in a queue.", []string{"queue"}, nil)
	for name, n := range s.engine.queues.Lengths() {
		out <- prometheus.MustNewConstMetric(length, prometheus.GaugeValue, float64(n), name)
	}
	labels := []string{"hook", "binding", "queue"}
	objects := prometheus.NewDesc(s.prefix+"kube_snapshot_objects", "Objects in the snapshot of a binding.", labels, nil)
	size := prometheus.NewDesc(s.prefix+"kube_snapshot_bytes", "Bytes of the objects and filter results of a binding, as JSON.", labels, nil)
	type values struct{ objects, bytes int }
	for _, h := range s.engine.Hooks {
		all := map[runLabels]values{} // bindings of one name count together
		for i, sub := range h.watched() {
			b := &h.Config.Kubernetes[i]
			n, bytes := sub.Size()
			one := all[runLabels{h.Name, b.Name, b.Queue}]
			all[runLabels{h.Name, b.Name, b.Queue}] = values{one.objects + n, one.bytes + bytes}
		}
		for l, v := range all {
			out <- prometheus.MustNewConstMetric(objects, prometheus.GaugeValue, float64(v.objects), l.values()...)
			out <- prometheus.MustNewConstMetric(size, prometheus.GaugeValue, float64(v.bytes), l.values()...)
		}
	}
}
