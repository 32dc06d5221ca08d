// Package metrics writes what package status knows of a node as metrics for Prometheus, and has the alert rules that read them.
//
// The metrics are a file in the text format, which node_exporter adds to its own: nothing listens, and nothing is counted here. They have no
// secrets, and no texts of errors. Labels are names of files, add-ons, units and operations; a metric has at most maxSeries of them.
package metrics

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/sealift/sealift/installer/inspect/status"
)

// Pass is one look at a node.
type Pass struct {
	Status status.Status
	// Failed means that the status could not be read. It has nothing then.
	Failed  bool
	Time    time.Time
	Version string // of this sealift
}

// maxSeries bounds the label values of one metric. A control plane has about 20 certificates and as many add-ons.
const maxSeries = 200

// sample is one value of a metric. Its labels are those of the metric, in their order.
type sample struct {
	value  float64
	labels []string
}

// metric is one row of the table of metrics. All are gauges.
type metric struct {
	name   string
	help   string
	labels []string
	read   func(p Pass) []sample
}

// one is the only sample of a metric without labels.
func one(value float64) []sample { return []sample{{value: value}} }

// flag is 1 for true.
func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// seconds is a time as Prometheus has it. There is no sample for the zero time.
func seconds(at time.Time) []sample {
	if at.IsZero() {
		return nil
	}
	return one(unix(at))
}

func unix(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }

// each makes a sample of each value of a list.
func each[T any](list []T, of func(T) sample) (all []sample) {
	for _, value := range list {
		all = append(all, of(value))
	}
	return all
}

// Text returns the metrics in Prometheus' text format.
func (p Pass) Text() ([]byte, error) {
	var out bytes.Buffer
	for _, m := range table() {
		family := m.family(p)
		if len(family.GetMetric()) == 0 {
			continue
		}
		if _, err := expfmt.MetricFamilyToText(&out, family); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// family reads a metric. Samples are sorted by their labels; of two with the same labels the first counts.
func (m metric) family(p Pass) *dto.MetricFamily {
	if p.Failed {
		p.Status = status.Status{}
	}
	samples := m.read(p)
	slices.SortStableFunc(samples, func(a, b sample) int { return slices.Compare(a.labels, b.labels) })
	samples = slices.CompactFunc(samples, func(a, b sample) bool { return slices.Equal(a.labels, b.labels) })
	if len(samples) > maxSeries {
		samples = samples[:maxSeries]
	}
	family := &dto.MetricFamily{Name: &m.name, Help: &m.help, Type: dto.MetricType_GAUGE.Enum()}
	for _, s := range samples {
		row := &dto.Metric{Gauge: &dto.Gauge{Value: &s.value}}
		for n, label := range m.labels {
			value := strings.ToValidUTF8(s.labels[n], "?")
			row.Label = append(row.Label, &dto.LabelPair{Name: &label, Value: &value})
		}
		slices.SortFunc(row.Label, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
		family.Metric = append(family.Metric, row)
	}
	return family
}
