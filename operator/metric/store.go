package metric

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Store keeps the metrics of all hooks. It is a prometheus.Collector. Its zero value is empty and ready for use.
type Store struct {
	mu       sync.Mutex
	families map[string]*family
}

// family is all series of one name, which are of one type: that of the first operation.
type family struct {
	action  Action
	buckets []float64
	series  map[string]*series
}

// series is one line of Prometheus's page.
type series struct {
	group  string
	labels map[string]string
	value  float64
	count  uint64
	counts []uint64 // of buckets, each with the values up to its bound
}

// Apply stores the metrics that a hook reported, with labels that name the hook. It takes all operations or none.
func (s *Store) Apply(operations []Operation, labels map[string]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.families == nil {
		s.families = map[string]*family{}
	}
	if err := s.check(operations); err != nil {
		return err
	}
	written := map[string]map[*series]bool{} // by group
	for _, o := range operations {
		if o.Group != "" && written[o.Group] == nil {
			written[o.Group] = map[*series]bool{}
		}
		if o.Action == Expire {
			clear(written[o.Group])
			continue
		}
		one := s.write(o, labels)
		if o.Group != "" {
			written[o.Group][one] = true
		}
	}
	for group, kept := range written {
		s.expire(group, kept)
	}
	return nil
}

// check refuses operations that disagree with the type of an existing metric.
func (s *Store) check(operations []Operation) error {
	var errs []error
	seen := map[string]Action{}
	for _, o := range operations {
		if o.Action == Expire {
			continue
		}
		action, ok := seen[o.Name]
		if f := s.families[o.Name]; f != nil && !ok {
			action, ok = f.action, true
		}
		if ok && action != o.Action {
			errs = append(errs, fmt.Errorf("metric %s is a %s, so its action is %s, not %s", o.Name, typeOf(action), action, o.Action))
		}
		seen[o.Name] = o.Action
	}
	return errors.Join(errs...)
}

func typeOf(a Action) string {
	return map[Action]string{Add: "counter", Set: "gauge", Observe: "histogram"}[a]
}

// write changes the series of an operation.
func (s *Store) write(o Operation, more map[string]string) *series {
	f := s.families[o.Name]
	if f == nil {
		f = &family{action: o.Action, buckets: o.Buckets, series: map[string]*series{}}
		s.families[o.Name] = f
	}
	labels := maps.Clone(o.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, more)
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" }) // not a label for Prometheus
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&key, "%s=%q,", name, labels[name])
	}
	one := f.series[key.String()]
	if one == nil {
		one = &series{labels: labels, counts: make([]uint64, len(f.buckets))}
		f.series[key.String()] = one
	}
	one.group = o.Group
	switch o.Action {
	case Set:
		one.value = *o.Value
	case Add:
		one.value += *o.Value
	case Observe:
		one.value += *o.Value
		one.count++
		for i, bound := range f.buckets {
			if *o.Value <= bound {
				one.counts[i]++
			}
		}
	}
	return one
}

// expire drops the series of a group that were not written again.
func (s *Store) expire(group string, kept map[*series]bool) {
	for name, f := range s.families {
		maps.DeleteFunc(f.series, func(_ string, one *series) bool { return one.group == group && !kept[one] })
		if len(f.series) == 0 {
			delete(s.families, name)
		}
	}
}

// Describe sends nothing: names change as hooks run.
func (*Store) Describe(chan<- *prometheus.Desc) {}

// Collect hands over all series.
func (s *Store) Collect(out chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, f := range s.families {
		for _, one := range f.series {
			out <- f.metric(name, one)
		}
	}
}

func (f *family) metric(name string, one *series) prometheus.Metric {
	names := slices.Sorted(maps.Keys(one.labels))
	values := make([]string, len(names))
	for i, label := range names {
		values[i] = one.labels[label]
	}
	desc := prometheus.NewDesc(name, name, names, nil)
	switch f.action {
	case Observe:
		buckets := make(map[float64]uint64, len(f.buckets))
		for i, bound := range f.buckets {
			buckets[bound] = one.counts[i]
		}
		return prometheus.MustNewConstHistogram(desc, one.count, one.value, buckets, values...)
	case Add:
		return prometheus.MustNewConstMetric(desc, prometheus.CounterValue, one.value, values...)
	default:
		return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, one.value, values...)
	}
}
