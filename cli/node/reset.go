package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/change"
	"github.com/sealift/sealift/installer/host/baseline"
	"github.com/sealift/sealift/installer/install/reset"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/internal/plaintext"
)

type resetOptions struct {
	reset.Options
	change.Flags
}

func (a commands) resetCommand() *cobra.Command {
	var o resetOptions
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Undo an install and restore this host",
		Long: `Undo an install or a join, complete or not. Pods move to other nodes if there are any, and the node leaves the
cluster. Then everything that the install changed on the host is restored: packages, services, files, networks,
firewall rules, kernel settings and swap. Files that somebody else has changed since are kept.

A control plane can be reset only if the other etcd members have a majority without it. --force resets it in any
case, does not wait for pods to move, and gives up what cannot be restored.

The data of volumes on this host is deleted unless --keep-data is given. At the end, the command lists everything
that could not be restored, and why. If a step failed, the command exits with 1 and keeps its record of the host: run
it again once the cause is repaired. If a reset is interrupted, run the same command again to finish it.`,
		Example: `  sealift reset --plan
  sealift reset --yes --keep-data
  sealift reset --yes --force`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.reset(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	addRoot(cmd, &o.Root)
	flags.BoolVar(&o.KeepData, "keep-data", false, "keep the data of volumes")
	flags.BoolVar(&o.Force, "force", false, "do not move pods, reset even a control plane that the cluster needs, and give up what cannot be restored")
	o.Add(cmd, "what would be done")
	return cmd
}

func (a commands) reset(ctx context.Context, o resetOptions) (err error) {
	o.Output = a.ProgramOutput()
	r, err := reset.Prepare(o.Options)
	if errors.Is(err, reset.ErrNothingInstalled) {
		fmt.Fprintln(a.Err, err)
		err = nil
		if !o.Plan {
			err = reset.Sweep(o.Options)
		}
		return errors.Join(err, change.Print(a.App, o.Flags, a.left(nil)))
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	question := "Reset this host?"
	if data := r.DataFolders(); len(data) > 0 && !o.KeepData {
		question = fmt.Sprintf("Reset this host, and remove the data of volumes in %s? (--keep-data keeps them)", strings.Join(data, ", "))
	}
	return change.Do(ctx, a.App, o.Flags, change.Work{
		To: "reset this host", Question: question, LogFile: r.LogFile, Check: r.Check,
		Plan: func() (change.Result, error) { return a.resetPlan(r) },
		Run: func(ctx context.Context, p *change.Progress) (change.Result, error) {
			remains, err := r.Run(ctx, steps(p))
			if errors.Is(err, reset.ErrIncomplete) {
				return a.left(remains), fmt.Errorf("%w: each failure is listed with its reason; sealift keeps its record of this host", err)
			}
			if err != nil {
				return change.Result{}, err
			}
			fmt.Fprintf(a.Err, "this host is reset, in %s, log %s\n", p.Took(100*time.Millisecond), r.LogFile())
			return a.left(remains), nil
		},
		Next: func(_ context.Context, err error) string {
			if errors.Is(err, reset.ErrIncomplete) {
				return "repair it, and run 'sealift reset' again; --force gives up what failed"
			}
			return "run 'sealift reset' again to go on"
		},
	})
}

func (a commands) resetPlan(r *reset.Reset) (change.Result, error) {
	lines, files, err := r.Undoes()
	if err != nil {
		return change.Result{}, err
	}
	return change.Result{
		Document: map[string]any{"steps": r.Plan(), "undoes": lines, "files": files},
		Text:     func() error { return a.printResetPlan(r.Plan(), lines, files) },
	}, nil
}

func (a commands) printResetPlan(steps lifecycle.Plan, lines []string, files baseline.Undo) error {
	if err := a.printSteps(steps); err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "\n%s\n", strings.Join(lines, "\n"))
	for _, group := range []struct {
		what  string
		paths []string
	}{{"files given their former content, owner and mode", files.Written}, {"files removed", files.Removed}} {
		fmt.Fprintf(a.Out, "%s: %d\n", group.what, len(group.paths))
		for _, path := range group.paths {
			fmt.Fprintf(a.Out, "  %s\n", path)
		}
	}
	if len(files.Left) == 0 {
		return nil
	}
	fmt.Fprintln(a.Out)
	return a.printLeft(files.Left)
}

// printSteps lists the steps of a plan, in order.
func (a commands) printSteps(plan lifecycle.Plan) error {
	t := plaintext.NewTable(tabwriter.NewWriter(a.Out, 2, 0, 2, ' ', 0))
	t.Println("STEP\tWHAT")
	for _, s := range plan {
		t.Printf("%s\t%s\n", s.ID, s.Title)
	}
	return t.Flush()
}

// left is the result of a reset: what could not be restored.
func (a commands) left(all []baseline.Left) change.Result {
	return change.Result{Document: map[string]any{"left": append([]baseline.Left{}, all...)}, Text: func() error { return a.printLeft(all) }}
}

func (a commands) printLeft(left []baseline.Left) error {
	if len(left) == 0 {
		return nil
	}
	t := plaintext.NewTable(tabwriter.NewWriter(a.Out, 2, 0, 2, ' ', 0))
	t.Println("LEFT\tWHY")
	for _, l := range left {
		t.Printf("%s\t%s\n", l.What, l.Why)
	}
	return t.Flush()
}
