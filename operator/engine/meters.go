package engine

import (
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sealift/sealift/operator/binding"
)

// meters measure the engine's own work, besides the hooks.
type meters struct {
	filters, events *prometheus.HistogramVec // of bindings
	actions         *prometheus.HistogramVec // of queues
	enable          *prometheus.GaugeVec     // seconds that the kubernetes bindings of a hook took until they were listed
	enabled         *prometheus.GaugeVec
	enableFailed    *prometheus.CounterVec
}

// noActions is the variable that switches the metric of actions on queues off, with "no".
const noActions = "QUEUE_ACTIONS_METRICS"

func newMeters(prefix string, placeLabels, hookLabels []string) *meters {
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10)}, labels)
	}
	kinds := append(append([]string{}, placeLabels...), kindLabel)
	return &meters{
		filters: histogram("kube_jq_filter_duration_seconds", "Time that a jq filter took for one object.", kinds...),
		events:  histogram("kube_event_duration_seconds", "Time that an event took from the watch to the queue.", kinds...),
		actions: histogram("tasks_queue_action_duration_seconds", "Time of low-level actions on queues.", "queue_name", "queue_action"),
		enable:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "hook_enable_kubernetes_bindings_seconds", Help: "Time until the objects of a hook were listed."}, hookLabels),
		enabled: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "hook_enable_kubernetes_bindings_success", Help: "1 if all objects of a hook could be listed."}, hookLabels),
		enableFailed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "hook_enable_kubernetes_bindings_errors_total", Help: "Starts of a hook at which some of its objects could not be listed.",
		}, hookLabels),
	}
}

func (m *meters) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.filters, m.events, m.actions, m.enable, m.enabled, m.enableFailed}
}

// measureQueues measures the actions on queues, unless the environment disables that.
func (e *Engine) measureQueues() {
	if os.Getenv(noActions) == "no" {
		return
	}
	e.queues.Measure = func(queue, action string, took time.Duration) {
		e.telemetry.meters.actions.WithLabelValues(queue, action).Observe(took.Seconds())
	}
}

// enabling notes how long the kubernetes bindings of a hook took until they were listed or had failed.
func (t *telemetry) enabling(h *Hook, since time.Time, failed bool) {
	labels := h.own(t.hookLabels)
	t.meters.enable.With(labels).Set(time.Since(since).Seconds())
	if failed {
		t.meters.enabled.With(labels).Set(0)
		t.meters.enableFailed.With(labels).Inc()
		return
	}
	t.meters.enabled.With(labels).Set(1)
	t.meters.enableFailed.With(labels).Add(0) // it exists
}

// meter measures one binding.
type meter struct {
	meters *meters
	labels prometheus.Labels
}

// meter is the meter of a kubernetes binding.
func (t *telemetry) meter(h *Hook, b *binding.Kubernetes) *meter {
	all := prometheus.Labels{moduleLabel: h.folder.Module, hookLabel: h.Name, bindingLabel: b.Name, queueLabel: b.Queue}
	return &meter{t.meters, pick(all, t.placeLabels)}
}

func (m *meter) observe(metric *prometheus.HistogramVec, kind string, took time.Duration) {
	curried := metric.MustCurryWith(m.labels)
	curried.WithLabelValues(kind).Observe(took.Seconds())
}

// Filtered implements watch.Meter.
func (m *meter) Filtered(kind string, took time.Duration) { m.observe(m.meters.filters, kind, took) }

// Handled implements watch.Meter.
func (m *meter) Handled(kind string, took time.Duration) { m.observe(m.meters.events, kind, took) }

// Requests measures the requests to the API server. It is a prometheus.Collector.
type Requests struct {
	prometheus.Collector

	result  *prometheus.CounterVec
	latency *prometheus.HistogramVec
}

// NewRequests makes the metrics of requests. prefix begins their names.
func NewRequests(prefix string) *Requests {
	r := &Requests{
		result: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "kubernetes_client_request_result_total", Help: "Requests to the API server.",
		}, []string{"code", "method", "host"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "kubernetes_client_request_latency_seconds", Help: "Time until the API server answered a request.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, []string{"method", "host"}),
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(r.result, r.latency)
	r.Collector = registry
	return r
}

// Wrap measures a transport; it is for the Wrap of a rest.Config.
func (r *Requests) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		begin := time.Now()
		resp, err := next.RoundTrip(req)
		code := "<error>" // as client-go says it
		if err == nil {
			code = strconv.Itoa(resp.StatusCode)
		}
		r.result.WithLabelValues(code, req.Method, req.URL.Host).Inc()
		r.latency.WithLabelValues(req.Method, req.URL.Host).Observe(time.Since(begin).Seconds())
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
