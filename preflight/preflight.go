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
	// Final marks a failure that nobody can ignore: with it nothing at all would work.
	Final bool `json:"final,omitempty"`
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

// Refusef reports a failure that nobody can ignore.
func (r *Reporter) Refusef(hint, format string, args ...any) {
	r.add(Fail, hint, format, args)
	r.results[len(r.results)-1].Final = true
}

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

// Policy is what to do about answers that are not as they should be.
type Policy struct {
	Ignore          bool `json:"ignore"`          // go on in spite of failures, except those that are final
	EnforceWarnings bool `json:"enforceWarnings"` // refuse for warnings too
}

// Err is nil when the host may be changed; otherwise it names all that is against it and what to do about that, one
// per line.
func (r Report) Err(p Policy) error {
	var against []Result
	for _, result := range r.Results {
		switch {
		case result.Status == Fail && (result.Final || !p.Ignore), result.Status == Warn && p.EnforceWarnings && !p.Ignore:
			against = append(against, result)
		}
	}
	if len(against) == 0 {
		return nil
	}
	return &RefusedError{Against: against}
}

// RefusedError says that checks failed.
type RefusedError struct {
	Against []Result
}

func (e *RefusedError) Error() string {
	text := "this host is not ready:"
	for _, result := range e.Against {
		text += "\n  " + result.String()
	}
	return text
}

// String is a result in one line.
func (r Result) String() string {
	if r.Hint == "" {
		return r.Check + ": " + r.Message
	}
	return r.Check + ": " + r.Message + "; " + r.Hint
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
