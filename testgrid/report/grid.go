package report

import (
	"cmp"
	"fmt"
	"slices"
)

// Cell is all attempts at one test on one system.
type Cell struct {
	Test     string   `json:"test"`
	Name     string   `json:"name"`
	System   string   `json:"system"`
	Verdict  Verdict  `json:"verdict"`
	Passes   int      `json:"passes"`
	Attempts []Result `json:"attempts"`

	past []Earlier
}

// Took is the time of the longest attempt.
func (c Cell) Took() Seconds {
	var most Seconds
	for _, a := range c.Attempts {
		most = max(most, a.Took)
	}
	return most
}

// Doing is the step at which a running test is, and "" otherwise.
func (c Cell) Doing() string {
	for _, a := range c.Attempts {
		if a.Verdict == Running && len(a.Steps) > 0 {
			return a.Steps[len(a.Steps)-1].Name
		}
	}
	return ""
}

// Reason returns the reason of the first attempt that has one.
func (c Cell) Reason() string {
	for _, a := range c.Attempts {
		if a.Reason != "" {
			return a.Reason
		}
	}
	return ""
}

// Rate is "2 of 3 passed" for several attempts, and "" for one.
func (c Cell) Rate() string {
	if len(c.Attempts) < 2 {
		return ""
	}
	return fmt.Sprintf("%d of %d passed", c.Passes, len(c.Attempts))
}

// Cells groups results, in the order in which their tests first appear, and by system.
func Cells(results []Result) []Cell {
	type key struct{ test, system string }
	at, order := map[key]int{}, map[string]int{}
	var cells []Cell
	for _, r := range results {
		k := key{r.Test, r.System}
		if _, known := order[r.Test]; !known {
			order[r.Test] = len(order)
		}
		i, known := at[k]
		if !known {
			i = len(cells)
			at[k] = i
			cells = append(cells, Cell{Test: r.Test, Name: r.Name, System: r.System})
		}
		cells[i].Attempts = append(cells[i].Attempts, r)
	}
	for i := range cells {
		cells[i].judge()
	}
	slices.SortStableFunc(cells, func(a, b Cell) int {
		return cmp.Or(cmp.Compare(order[a.Test], order[b.Test]), cmp.Compare(a.System, b.System))
	})
	return cells
}

func (c *Cell) judge() {
	slices.SortFunc(c.Attempts, func(a, b Result) int { return cmp.Compare(a.Attempt, b.Attempt) })
	failures, running, waiting := 0, false, false
	for _, a := range c.Attempts {
		switch a.Verdict {
		case Passed:
			c.Passes++
		case Failed, Flaky:
			failures++
		case Running:
			running = true
		case Waiting:
			waiting = true
		}
	}
	switch {
	case running:
		c.Verdict = Running
	case failures > 0 && c.Passes > 0:
		c.Verdict = Flaky
	case failures > 0:
		c.Verdict = Failed
	case waiting:
		c.Verdict = Waiting
	case c.Passes > 0:
		c.Verdict = Passed
	default:
		c.Verdict = Skipped
	}
}

// Counts is the number of cells by verdict.
type Counts struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Flaky   int `json:"flaky"`
	Skipped int `json:"skipped"`
	Running int `json:"running,omitempty"`
	Waiting int `json:"waiting,omitempty"`
}

// Count counts cells by verdict.
func Count(cells []Cell) (n Counts) {
	for _, c := range cells {
		switch c.Verdict {
		case Passed:
			n.Passed++
		case Failed:
			n.Failed++
		case Flaky:
			n.Flaky++
		case Running:
			n.Running++
		case Waiting:
			n.Waiting++
		default:
			n.Skipped++
		}
	}
	return n
}

// String is the last line of a run.
func (n Counts) String() string {
	text := fmt.Sprintf("%d passed, %d failed, %d flaky, %d skipped", n.Passed, n.Failed, n.Flaky, n.Skipped)
	if n.Running+n.Waiting > 0 {
		text += fmt.Sprintf(", %d running, %d waiting", n.Running, n.Waiting)
	}
	return text
}
