package server

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sealift/sealift/internal/connlimit"
)

// metrics are the server's counters, in a separate registry.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	sent     *prometheus.CounterVec
	aborted  *prometheus.CounterVec
	busy     prometheus.Gauge
	refused  prometheus.Counter
	planned  *prometheus.CounterVec
	parsed   prometheus.Counter
	registry *prometheus.Registry
	handler  http.Handler
}

func newMetrics() *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sealift_http_requests_total", Help: "Answered requests."}, []string{"route", "method", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sealift_http_request_duration_seconds", Help: "Time until the response was complete.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10)}, []string{"route"}),
		sent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sealift_http_sent_bytes_total", Help: "Bytes of responses."}, []string{"route"}),
		aborted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sealift_transfers_aborted_total", Help: "Responses aborted because the store failed."}, []string{"route"}),
		busy: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sealift_http_requests_in_flight", Help: "Requests in progress."}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sealift_http_requests_refused_total", Help: "Requests refused by the rate limit of a client."}),
		planned: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sealift_bundle_plans_total", Help: "Requested bundle plans, by whether the plan was cached."}, []string{"remembered"}),
		parsed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sealift_installers_parsed_total", Help: "Stored Installers parsed from YAML."}),
	}
	m.registry = prometheus.NewRegistry()
	m.registry.MustRegister(m.requests, m.duration, m.sent, m.aborted, m.busy, m.refused, m.planned, m.parsed,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
	return m
}

// watch adds the connections and requests that clients hold.
func (m *metrics) watch(l *connlimit.Limiter) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "sealift_clients_held_bytes", Help: "Memory that connections and requests of clients count."},
			func() float64 { return float64(l.Stats().Held) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "sealift_clients_refused_total", Help: "Connections and requests beyond the bounds of a client or of all."},
			func() float64 { return float64(l.Stats().Refused) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "sealift_clients_evicted_total", Help: "Connections and requests ended to make room for others."},
			func() float64 { return float64(l.Stats().Evicted) }))
}

func (m *metrics) observe(r route, seen *observed, took time.Duration) {
	m.requests.WithLabelValues(r.pattern, r.method, strconv.Itoa(seen.status)).Inc()
	m.duration.WithLabelValues(r.pattern).Observe(took.Seconds())
	m.sent.WithLabelValues(r.pattern).Add(float64(seen.bytes))
	if seen.aborted {
		m.aborted.WithLabelValues(r.pattern).Inc()
	}
}
