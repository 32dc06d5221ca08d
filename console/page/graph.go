package page

import (
	"fmt"
	"strings"
	"time"

	"github.com/sealift/sealift/console/history"
	"github.com/sealift/sealift/internal/plaintext"
)

// The size of a graph, in units of its own: the browser fits it into the page.
const (
	graphWidth, graphHeight = 600, 120
	// maxGap is the time between two samples after which a line has a gap.
	maxGap = 3 * history.Every
	// rowTime is the time between two rows of the table that has the same values as the graph.
	rowTime = 5 * time.Minute
)

// graph is a line over the last hour, with its values in words.
type graph struct {
	ID, Title string
	Summary   string   // the last value, the smallest and the largest
	Lines     []string // points of polylines: one for each time without a gap
	Rows      []graphRow
}

type graphRow struct {
	Time  time.Time
	Value string
}

// graphs are those of the overview, as far as there are values.
func (s *Site) graphs() (all []graph) {
	if s.History == nil {
		return nil
	}
	samples, now := s.History(), s.Now()
	for _, one := range []struct {
		id, title string
		value     func(history.Sample) float64
		word      func(float64) string
	}{
		{"etcd", "Size of etcd's database", func(h history.Sample) float64 { return float64(h.Etcd) }, func(v float64) string { return plaintext.Bytes(int64(v)) }},
		{"latency", "Time until the Kubernetes API of this node answers", func(h history.Sample) float64 { return h.API }, func(v float64) string { return fmt.Sprintf("%.1f ms", v) }},
	} {
		if g, ok := draw(samples, now, one.value, one.word); ok {
			g.ID, g.Title = one.id, one.title
			all = append(all, g)
		}
	}
	return all
}

// draw draws the values that are not 0, from 0 to the largest. ok is false if there are none.
func draw(samples []history.Sample, now time.Time, value func(history.Sample) float64, word func(float64) string) (g graph, ok bool) {
	var smallest, largest, newest float64
	for _, s := range samples {
		if v := value(s); v > 0 {
			newest, largest = v, max(largest, v)
			if smallest == 0 || v < smallest {
				smallest = v
			}
		}
	}
	if largest == 0 {
		return g, false
	}
	g.Summary = fmt.Sprintf("%s, between %s and %s in the last hour", word(newest), word(smallest), word(largest))
	if value(samples[len(samples)-1]) == 0 {
		g.Summary = fmt.Sprintf("no value now; between %s and %s in the last hour", word(smallest), word(largest))
	}
	var line []string
	var last, row time.Time
	end := func() {
		if len(line) > 0 {
			g.Lines = append(g.Lines, strings.Join(line, " "))
		}
		line = nil
	}
	for _, s := range samples {
		v, age := value(s), now.Sub(s.Time)
		if age < 0 || age > history.Span {
			continue
		}
		if v == 0 || s.Time.Sub(last) > maxGap {
			end()
		}
		text := "no value"
		if last = s.Time; v > 0 {
			text = word(v)
			line = append(line, fmt.Sprintf("%.1f,%.1f", graphWidth*(1-age.Seconds()/history.Span.Seconds()), graphHeight*(1-v/largest)))
		}
		if s.Time.Sub(row) >= rowTime {
			row = s.Time
			g.Rows = append(g.Rows, graphRow{s.Time, text})
		}
	}
	end()
	return g, true
}
