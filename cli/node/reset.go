package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/host/baseline"
	"github.com/sealift/sealift/installer/install/reset"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/plaintext"
)

type resetOptions struct {
	reset.Options
	plan    bool
	yes     bool
	verbose bool
	format  string
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
			o.verbose, _ = cmd.Flags().GetBool("verbose")
			return refuse(a.reset(cmd.Context(), o))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Root, "root", node.DefaultRoot, "state folder of the node")
	flags.BoolVar(&o.plan, "plan", false, "show what would be done, and change nothing")
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&o.KeepData, "keep-data", false, "keep the data of volumes")
	flags.BoolVar(&o.Force, "force", false, "do not move pods, reset even a control plane that the cluster needs, and give up what cannot be restored")
	app.AddOutputFlag(cmd, &o.format)
	return cmd
}

func (a commands) reset(ctx context.Context, o resetOptions) (err error) {
	if o.verbose {
		o.Output = a.Err
	}
	r, err := reset.Prepare(o.Options)
	if errors.Is(err, reset.ErrNothingInstalled) {
		fmt.Fprintln(a.Err, err)
		if o.plan {
			return a.printLeft(nil, o.format)
		}
		return errors.Join(reset.Sweep(o.Options), a.printLeft(nil, o.format))
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if o.plan {
		return a.printResetPlan(r, o.format)
	}
	if err := r.Check(ctx); err != nil {
		return fmt.Errorf("%w\nnothing was changed", err)
	}
	question := "Reset this host?"
	if data := r.DataFolders(); len(data) > 0 && !o.KeepData {
		question = fmt.Sprintf("Reset this host, and remove the data of volumes in %s? (--keep-data keeps them)", strings.Join(data, ", "))
	}
	if err := a.agree(o.yes, "reset this host", question); err != nil {
		return err
	}
	defer a.tellOfInterruption(ctx)()
	begin := time.Now()
	events := a.Out
	if o.format == "json" {
		events = a.Err
	}
	left, err := r.Run(ctx, func(e lifecycle.Event) { printEvent(events, e) })
	if errors.Is(err, reset.ErrIncomplete) {
		return errors.Join(a.printLeft(left, o.format), fmt.Errorf("%w: what failed is listed with the reason; sealift keeps its record of this host\nlog: %s\nrepair it, and run 'sealift reset' again; --force gives up what failed", err, r.LogFile()))
	}
	if err != nil {
		return fmt.Errorf("%w\nlog: %s\nrun 'sealift reset' again to go on", err, r.LogFile())
	}
	fmt.Fprintf(a.Err, "this host is reset, in %s, log %s\n", time.Since(begin).Round(100*time.Millisecond), r.LogFile())
	return a.printLeft(left, o.format)
}

func (a commands) printResetPlan(r *reset.Reset, format string) error {
	lines, files, err := r.Undoes()
	if err != nil {
		return err
	}
	if format == "json" {
		return a.PrintJSON(map[string]any{"steps": r.Plan(), "undoes": lines, "files": files})
	}
	if err := a.printSteps(r.Plan()); err != nil {
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
	return a.printLeft(files.Left, format)
}

// printSteps lists what a plan does, in order.
func (a commands) printSteps(plan lifecycle.Plan) error {
	t := plaintext.NewTable(tabwriter.NewWriter(a.Out, 2, 0, 2, ' ', 0))
	t.Println("STEP\tWHAT")
	for _, s := range plan {
		t.Printf("%s\t%s\n", s.ID, s.Title)
	}
	return t.Flush()
}

func (a commands) printLeft(left []baseline.Left, format string) error {
	if format == "json" {
		if left == nil {
			left = []baseline.Left{}
		}
		return a.PrintJSON(map[string]any{"left": left})
	}
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
