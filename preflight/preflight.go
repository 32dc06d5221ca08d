// Package preflight checks a host before an install changes anything, and reports what would fail.
//
// A check is a probe that takes a Reporter, as tests take testing.T. It may report any number of results and never changes
// the host. The caller decides what to do about a failure: refuse, ask or ignore.
//
// Comments cite rules of kURL by section (kURL §8.2): docs/reference/kurl.md has them.
package preflight

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/sealift/sealift/internal/plaintext"
)

// Status is the status of a result.
type Status string

// The statuses. A warning is worth knowing. A failure will break the install.
const (
	Pass Status = "pass"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Check is one named question about the host.
type Check struct {
	Name  string
	Probe func(ctx context.Context, r *Reporter)
}

// Ahead begins a slow check now, and returns one that waits for its results. The check must use nothing that others change, and disturb no
// measurement. It is to end with ctx.
func (c Check) Ahead(ctx context.Context) Check {
	r, done := Reporter{check: c.Name}, make(chan struct{})
	go func() {
		defer close(done)
		c.Probe(ctx, &r)
	}()
	return Check{c.Name, func(_ context.Context, to *Reporter) {
		<-done
		to.results = append(to.results, r.results...)
	}}
}

// Result is one answer. Hint is the remedy for a warning or failure.
type Result struct {
	Check   string `json:"check"`
	Status  Status `json:"status"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Final marks a failure that no option can ignore, because nothing would work.
	Final bool `json:"final,omitempty"`
}

// Report lists all results in the order of the checks.
type Report struct {
	Results []Result `json:"results"`
}

// Reporter collects the results of one probe.
type Reporter struct {
	check   string
	results []Result
}

// Passf reports success.
func (r *Reporter) Passf(format string, args ...any) { r.add(Pass, "", format, args) }

// Warnf reports a warning. hint is the remedy.
func (r *Reporter) Warnf(hint, format string, args ...any) { r.add(Warn, hint, format, args) }

// Failf reports a problem that will break the install. hint is the remedy.
func (r *Reporter) Failf(hint, format string, args ...any) { r.add(Fail, hint, format, args) }

// Refusef reports a failure that no option can ignore.
func (r *Reporter) Refusef(hint, format string, args ...any) {
	r.add(Fail, hint, format, args)
	r.results[len(r.results)-1].Final = true
}

// unknown reports that a check could not find its answer. This is a warning, because the install may still work.
func (r *Reporter) unknown(err error) {
	r.Warnf("find out why it cannot be read", "cannot tell: %v", err)
}

func (r *Reporter) add(status Status, hint, format string, args []any) {
	r.results = append(r.results, Result{Check: r.check, Status: status, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// Run runs the checks in sequence. If ctx ends, it returns its error and the results so far.
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

// Count returns the number of results with a status.
func (r Report) Count(s Status) int {
	n := 0
	for _, result := range r.Results {
		if result.Status == s {
			n++
		}
	}
	return n
}

// Policy decides which results stop the install.
type Policy struct {
	Ignore          bool `json:"ignore"`          // continue despite failures that are not final
	EnforceWarnings bool `json:"enforceWarnings"` // treat warnings as failures
}

// Err returns nil if the install may change the host. Otherwise the error lists the faults and their remedies, one result per
// line.
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

// RefusedError reports that checks failed.
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

// String returns the result on one line.
func (r Result) String() string {
	if r.Hint == "" {
		return r.Check + ": " + r.Message
	}
	return r.Check + ": " + r.Message + "; " + r.Hint
}

// WriteTable prints the report for people: one row per result, with its hint below.
func (r Report) WriteTable(w io.Writer) error {
	table := plaintext.NewTable(tabwriter.NewWriter(w, 0, 0, 2, ' ', 0))
	table.Println("RESULT\tCHECK\tFOUND")
	for _, result := range r.Results {
		table.Printf("%s\t%s\t%s\n", result.Status, result.Check, result.Message)
		if result.Hint != "" {
			table.Printf("\t\t→ %s\n", result.Hint)
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print preflight report: %w", err)
	}
	return nil
}
