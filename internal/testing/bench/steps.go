package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/sealift/sealift/installer/journal/lifecycle"
)

// slowStep is the shortest step that is printed, in seconds.
const slowStep = 0.3

// stepTimes are the steps of several installs, by ID.
type stepTimes map[string]*stepTime

type stepTime struct {
	took, ended []float64 // seconds, the end from the start of the first step
}

// add adds the journal of one install.
func (all stepTimes) add(journal string) error {
	var records []lifecycle.Record
	if err := json.Unmarshal([]byte(journal), &records); err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	for _, r := range records {
		if r.Outcome != lifecycle.Finished {
			continue
		}
		if all[r.Step] == nil {
			all[r.Step] = &stepTime{}
		}
		step := all[r.Step]
		step.took = append(step.took, r.Duration.Seconds())
		step.ended = append(step.ended, r.Time.Sub(records[0].Time).Seconds())
	}
	return nil
}

// print prints the medians of the slow steps, in the order in which they ended.
func (all stepTimes) print() error {
	t := tabwriter.NewWriter(os.Stdout, 2, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "step\ttook s\tended at s\t")
	var names []string
	for name, step := range all {
		if middle(step.took) >= slowStep {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Compare(middle(all[a].ended), middle(all[b].ended))
	})
	for _, name := range names {
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t\n", name, middle(all[name].took), middle(all[name].ended))
	}
	return t.Flush()
}
