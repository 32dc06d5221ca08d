package lifecycle

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// telemetry has the operator's metrics of modules.
type telemetry struct {
	registry                              *prometheus.Registry
	configErrors, discoverErrors          prometheus.Counter
	runErrors, deleteErrors               *prometheus.CounterVec
	runSeconds, helmSeconds, helmSteps    *prometheus.HistogramVec
	convergenceSeconds, convergenceTotals *prometheus.CounterVec
}

func newTelemetry(prefix string) *telemetry {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: prometheus.ExponentialBuckets(0.005, 2, 18)}, labels)
	}
	t := &telemetry{
		registry:           prometheus.NewRegistry(),
		configErrors:       prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "config_values_errors_total", Help: "Edits of the ConfigMap that were wrong."}),
		discoverErrors:     prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "module_discover_errors_total", Help: "Discoveries of modules that failed."}),
		runErrors:          counter("module_run_errors_total", "Runs of modules that failed.", "module"),
		deleteErrors:       counter("module_delete_errors_total", "Deletions of modules that failed.", "module"),
		runSeconds:         histogram("module_run_seconds", "Time that a run of a module took.", "module"),
		helmSeconds:        histogram("module_helm_seconds", "Time that the chart of a module took.", "module", "activation"),
		helmSteps:          histogram("helm_operation_seconds", "Time that an operation of Helm took.", "module", "activation", "operation"),
		convergenceSeconds: counter("convergence_seconds", "Time that reloads of all modules took.", "activation"),
		convergenceTotals:  counter("convergence_total", "Reloads of all modules.", "activation"),
	}
	t.registry.MustRegister(t.configErrors, t.discoverErrors, t.runErrors, t.deleteErrors, t.runSeconds, t.helmSeconds, t.helmSteps,
		t.convergenceSeconds, t.convergenceTotals)
	return t
}

// ran notes a run of a module.
func (t *telemetry) ran(module string, took time.Duration, err error) {
	t.runSeconds.WithLabelValues(module).Observe(took.Seconds())
	if err != nil {
		t.runErrors.WithLabelValues(module).Inc()
	}
}

// ensured records that a release was brought up to date. Most of the time goes to an upgrade, or to the check whether one is needed.
func (t *telemetry) ensured(module, activation string, upgraded bool, took time.Duration) {
	operation := "check-upgrade"
	if upgraded {
		operation = "upgrade"
	}
	t.helmSeconds.WithLabelValues(module, activation).Observe(took.Seconds())
	t.helmSteps.WithLabelValues(module, activation, operation).Observe(took.Seconds())
}

// converged records that a reload of all modules is over.
func (t *telemetry) converged(activation string, took time.Duration) {
	t.convergenceSeconds.WithLabelValues(activation).Add(took.Seconds())
	t.convergenceTotals.WithLabelValues(activation).Inc()
}
