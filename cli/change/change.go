// Package change drives the commands that change something. They share flags, ask and report in the same way, and say what to do after a
// failure. It knows no command.
package change

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
)

// Flags are --plan, --yes and -o.
type Flags struct {
	Plan   bool
	Yes    bool
	Format string // text or json
}

// Add adds the flags to a command. shows is what --plan shows, such as "what would be done".
func (f *Flags) Add(cmd *cobra.Command, shows string) {
	f.AddPlan(cmd, shows)
	cmd.Flags().BoolVarP(&f.Yes, "yes", "y", false, "do not ask")
}

// AddPlan gives a command that asks nobody --plan and -o.
func (f *Flags) AddPlan(cmd *cobra.Command, shows string) {
	cmd.Flags().BoolVar(&f.Plan, "plan", false, "show "+shows+", and change nothing")
	app.AddOutputFlag(cmd, &f.Format)
}

// Result is printed by a command at its end. Document and Text have the same facts.
type Result struct {
	Document any          // for programs; nil for no result
	Text     func() error // prints for people
	// Failed is what failed after the change was made. The command prints the result, and ends with this error.
	Failed error
}

// Work is one change that a command makes.
type Work struct {
	// To names the change where nobody can be asked, such as "reset this host".
	To string
	// Question is asked at a terminal, unless --yes was given. An empty one is not asked.
	Question string
	// Unasked lets the work begin where nobody can be asked. Without it, --yes is required there: lost data cannot be recovered.
	Unasked bool

	// Plan returns what --plan shows.
	Plan func() (Result, error)
	// Check refuses the change before anybody is asked; nil checks nothing. It changes nothing.
	Check func(context.Context) error
	// Run makes the change. It may return a result with its error: the work done until then.
	Run func(context.Context, *Progress) (Result, error)

	// LogFile names the log file; nil for work without one.
	LogFile func() string
	// Next returns what to do after a failure of Run, or ""; nil for running the same command again.
	Next func(context.Context, error) string
}

// Line prints one line for people.
func Line(out io.Writer, format string, args ...any) func() error {
	return func() error {
		_, err := fmt.Fprintf(out, format+"\n", args...)
		return err
	}
}

// Do shows the plan, or checks, asks, runs, and prints the result.
func Do(ctx context.Context, a *app.App, f Flags, w Work) error {
	if f.Plan {
		r, err := w.Plan()
		return errors.Join(Print(a, f, r), err)
	}
	if w.Check != nil {
		if err := w.Check(ctx); err != nil {
			return Unchanged(err)
		}
	}
	if err := w.agree(a, f); err != nil {
		return err
	}
	defer reportInterruption(ctx, a)()
	r, err := w.Run(ctx, newProgress(a.Notes(f.Format)))
	if err != nil {
		err = w.failed(ctx, err)
	}
	return errors.Join(Print(a, f, r), err)
}

// Print prints a result, as for work that finds nothing to do.
func Print(a *app.App, f Flags, r Result) error {
	if r.Document == nil {
		return r.Failed
	}
	return errors.Join(a.Print(f.Format, r.Document, r.Text), r.Failed)
}

// Unchanged adds to an error that nothing was changed.
func Unchanged(err error) error { return fmt.Errorf("%w\nnothing was changed", err) }

// agree asks a person.
func (w Work) agree(a *app.App, f Flags) error {
	switch {
	case f.Yes || w.Question == "":
		return nil
	case !a.CanAsk() && w.Unasked:
		return nil
	case !a.CanAsk():
		return app.UsageError("nobody can be asked here: give --yes to %s, or --plan to see what that would do", w.To)
	case !a.Confirm(w.Question):
		return errors.New("not confirmed; nothing was changed")
	}
	return nil
}

// Nothing is Next of work that needs nothing after a failure.
func Nothing(context.Context, error) string { return "" }

// Again is Next of work that the command with these words resumes.
func Again(words string) func(context.Context, error) string {
	return func(context.Context, error) string { return "run 'sealift " + words + "' again to go on" }
}

// failed adds to an error of Run where its log is, and what to do next.
func (w Work) failed(ctx context.Context, err error) error {
	next := "run the same command again to go on"
	if w.Next != nil {
		next = w.Next(ctx, err)
	}
	if w.LogFile != nil && w.LogFile() != "" {
		err = fmt.Errorf("%w\nlog: %s", err, w.LogFile())
	}
	if next != "" {
		err = fmt.Errorf("%w\n%s", err, next)
	}
	return err
}

// reportInterruption reports an interruption at once, since the current step may take a while to end. Call the returned function
// to stop.
func reportInterruption(ctx context.Context, a *app.App) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		fmt.Fprintln(a.Err, "interrupted: a step that must not stop halfway goes on to its end; interrupt again not to wait for it")
	})
}
