package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/change"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/operation/upgrade"
)

type undoOptions struct {
	change.Flags
	root string
}

func (a commands) undoCommand() *cobra.Command {
	var o undoOptions
	cmd := &cobra.Command{
		Use:   "undo",
		Short: "Take the cluster back to where it was before its last upgrade",
		Long: `Take the cluster back to where it was before its last upgrade. Run the command as root on the control plane that
led the upgrade. The objects of the cluster come from the snapshot of etcd that the upgrade saved before its first change;
the programs and settings of the nodes, and what Sealift knows about them, come from the copies that each node kept.

Several control planes go back together. First each of them makes data for etcd of the snapshot. If one of them cannot, the
command ends, and no control plane has changed.

What was written to the cluster since then is lost. The command lists those objects first, and asks. Volumes, host
packages and a new version of the container runtime stay.

If the command is interrupted, run it again to continue.`,
		Example: "  sealift upgrade undo --plan\n  sealift upgrade undo\n  sealift upgrade undo --yes",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.undo(cmd.Context(), o) },
	}
	addRoot(cmd, &o.root)
	o.Add(cmd, "what would be lost")
	return cmd
}

func (a commands) undo(ctx context.Context, o undoOptions) (err error) {
	name, err := host.Name()
	if err != nil {
		return err
	}
	u, err := upgrade.PrepareUndo(ctx, o.root, name, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, u.Close()) }()
	lost := change.Result{
		Document: map[string]any{"from": u.Set.From, "time": u.Set.Time, "nodes": append([]string{}, u.Nodes...), "controlPlanes": append([]string{}, u.ControlPlanes()...), "lost": u.Lost},
		Text:     func() error { return nil }, // it is printed before
	}
	if o.Format != "json" {
		a.printUndo(u)
	}
	return change.Do(ctx, a.App, o.Flags, change.Work{
		To: "undo the upgrade", Question: "Undo the upgrade?", Unasked: true, LogFile: u.LogFile,
		Plan: func() (change.Result, error) { return lost, nil },
		Run: func(ctx context.Context, p *change.Progress) (change.Result, error) {
			if err := u.Run(ctx, steps(p), p.Line); err != nil {
				return change.Result{}, err
			}
			lost.Text = change.Line(a.Out, "done: the cluster runs Kubernetes %s again, in %s", u.Set.From, p.Took(time.Second))
			return lost, nil
		},
		Next: func(context.Context, error) string {
			return "what is done stays done; run the command again to continue"
		},
	})
}

func (a commands) printUndo(u *upgrade.Undo) {
	fmt.Fprintf(a.Out, "back to Kubernetes %s, and to what the cluster was at %s\n", u.Set.From, u.Set.Time.Format(time.RFC3339))
	for _, name := range u.Nodes {
		fmt.Fprintf(a.Out, "  node %s goes back first\n", name)
	}
	if u.Restored {
		fmt.Fprintln(a.Out, "  the data and files of this node are back already, and nothing is lost again; what Sealift knows about it goes back")
	} else if together := u.ControlPlanes(); len(together) > 0 {
		fmt.Fprintf(a.Out, "  control planes go back together, each with its own copies and the same snapshot: %s\n", strings.Join(together, ", "))
	} else if u.Away != "" {
		fmt.Fprintf(a.Out, "  the API does not answer, and no other node runs the new version: %s\n", u.Away)
	}
	for _, line := range lostObjects(u.Lost) {
		fmt.Fprintln(a.Out, line)
	}
}
