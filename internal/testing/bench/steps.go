package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sealift/sealift/installer/journal/lifecycle"
)

// slowStep is the shortest step that is printed, in seconds.
const slowStep = 0.3

// stepTimes are the steps of several installs, by ID.
type stepTimes map[string]*stepTime

type stepTime struct {
	took, ended []float64 // seconds, the end from the start of the command
}

// The rows of what an install does outside of its steps: to read and check the bundle and the host, and to print how to join.
const (
	beforeSteps = "(before the first step)"
	behindSteps = "(after the last step)"
)

// add adds an install with its journal.
func (all stepTimes) add(journal string, whole outcome) error {
	var records []lifecycle.Record
	if err := json.Unmarshal([]byte(journal), &records); err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	if len(records) == 0 {
		return errors.New("the journal of the install is empty")
	}
	since := func(t time.Time) float64 { return t.Sub(whole.began).Seconds() }
	all.addOne(beforeSteps, since(records[0].Time), since(records[0].Time))
	for _, r := range records {
		if r.Outcome == lifecycle.Finished {
			all.addOne(r.Step, r.Duration.Seconds(), since(r.Time))
		}
	}
	all.addOne(behindSteps, whole.seconds-since(records[len(records)-1].Time), whole.seconds)
	return nil
}

func (all stepTimes) addOne(name string, took, ended float64) {
	if all[name] == nil {
		all[name] = &stepTime{}
	}
	all[name].took, all[name].ended = append(all[name].took, took), append(all[name].ended, ended)
}

// print prints the medians of the slow steps, in the order in which they ended.
func (all stepTimes) print() error {
	t := newTable("step\ttook s\tended at s\t")
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
