// Package preflight looks at a host before anything on it is changed, and says what would go wrong.
//
// A check is a probe that takes a Reporter, as tests take testing.T: it may report any number of results and never
// changes the host. What to do about a failure (refuse, ask, ignore) is the caller's choice.
package preflight

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
)

// Status is the outcome of a probe.
type Status string

// The outcomes. A warning is something to know; a failure is something that will break the install.
const (
	Pass Status = "pass"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Check is one question asked of the host.
type Check struct {
	Name  string
	Probe func(ctx context.Context, r *Reporter)
}

// Result is one answer. Hint says what to do about a warning or failure.
type Result struct {
	Check   string `json:"check"`
	Status  Status `json:"status"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Report is every answer, in the order of the checks.
type Report struct {
	Results []Result `json:"results"`
}

// Reporter takes the answers of one probe.
type Reporter struct {
	check   string
	results []Result
}

// Passf reports that something is as it should be.
func (r *Reporter) Passf(format string, args ...any) { r.add(Pass, "", format, args) }

// Warnf reports something to know; hint says what to do about it.
func (r *Reporter) Warnf(hint, format string, args ...any) { r.add(Warn, hint, format, args) }

// Failf reports something that will break the install; hint says what to do about it.
func (r *Reporter) Failf(hint, format string, args ...any) { r.add(Fail, hint, format, args) }

// unknown reports that the question could not be answered. It is a warning: the install may well work.
func (r *Reporter) unknown(err error) {
	r.Warnf("see why it cannot be read", "cannot tell: %v", err)
}

func (r *Reporter) add(status Status, hint, format string, args []any) {
	r.results = append(r.results, Result{Check: r.check, Status: status, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// Run asks every check, one after the other. The error is that of a context which ended meanwhile; the report then has
// the answers so far.
func Run(ctx context.Context, checks []Check) (Report, error) {
	report := Report{Results: []Result{}}
	for _, c := range checks {
		if err := ctx.Err(); err != nil {
			return report, fmt.Errorf("preflight checks stopped before %s: %w", c.Name, err)
		}
		r := Reporter{check: c.Name}
		c.Probe(ctx, &r)
		report.Results = append(report.Results, r.results...)
	}
	return report, nil
}

// Count returns how many answers have the status.
func (r Report) Count(s Status) int {
	n := 0
	for _, result := range r.Results {
		if result.Status == s {
			n++
		}
	}
	return n
}

// Err is nil when nothing failed; otherwise it names every failure and what to do about it, one per line.
func (r Report) Err() error {
	if r.Count(Fail) == 0 {
		return nil
	}
	return &RefusedError{Report: r}
}

// RefusedError says that checks failed.
type RefusedError struct {
	Report Report
}

func (e *RefusedError) Error() string {
	text := "this host is not ready:"
	for _, result := range e.Report.Results {
		if result.Status == Fail {
			text += "\n  " + result.Check + ": " + result.Message
			if result.Hint != "" {
				text += "; " + result.Hint
			}
		}
	}
	return text
}

// WriteTable prints the report for people: a row per answer, and below it what to do about it.
func (r Report) WriteTable(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RESULT\tCHECK\tFOUND")
	for _, result := range r.Results {
		fmt.Fprintf(table, "%s\t%s\t%s\n", result.Status, result.Check, result.Message)
		if result.Hint != "" {
			fmt.Fprintf(table, "\t\t→ %s\n", result.Hint)
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print preflight report: %w", err)
	}
	return nil
}
