package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/change"
	"github.com/sealift/sealift/installer/install/adopt"
	"github.com/sealift/sealift/preflight"
)

type adoptOptions struct {
	adopt.Options
	change.Flags
}

func (a commands) adoptCommand() *cobra.Command {
	var o adoptOptions
	cmd := &cobra.Command{
		Use:   "adopt",
		Short: "Take over this node of a cluster that kURL made",
		Long: `Take over this host, a node of a cluster that kURL made, so that Sealift upgrades, checks and resets it. Run the command
as root on the first control plane, and then on every other node.

The command reads what kURL left in the cluster and on the host. It writes Sealift's records, and starts Sealift's
services. No pod, no kubelet and no container runtime restarts.

It refuses clusters without containerd, with a Kubernetes older than 1.31, and those whose last run of kURL did not
come to its end, and says what to do first. If the command is interrupted, run it again to continue.

Then give a bundle to 'sealift upgrade'. Hosts can join after that.`,
		Example: "  sealift adopt --plan\n  sealift adopt\n  sealift adopt --yes",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.adopt(cmd.Context(), o)
		},
	}
	addRoot(cmd, &o.Root)
	o.Add(cmd, "what was found and what would be done")
	return cmd
}

func (a commands) adopt(ctx context.Context, o adoptOptions) (err error) {
	o.Output = a.ProgramOutput()
	if o.Binary, err = os.Executable(); err != nil {
		return err
	}
	in, err := adopt.Prepare(ctx, o.Options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	report, err := in.Check(ctx)
	if err != nil {
		return err
	}
	preview := change.Result{
		Document: map[string]any{"found": in.Found, "addOns": in.Found.AddOns(), "checks": report.Results, "steps": in.Pending(), "stays": in.Stays()},
		Text:     func() error { return a.printAdoption(in, report) },
	}
	adopted := change.Result{
		Document: map[string]any{"found": in.Found, "addOns": in.Found.AddOns(), "stays": in.Stays()},
		Text:     func() error { return nil },
	}
	if len(in.Pending()) == 0 && (!o.Plan || o.Format != "json") {
		fmt.Fprintln(a.Err, "nothing to do: this node is adopted")
		return change.Print(a.App, o.Flags, adopted)
	}
	if !o.Plan && o.Format != "json" {
		if err := preview.Text(); err != nil {
			return err
		}
	}
	return change.Do(ctx, a.App, o.Flags, change.Work{
		To: "adopt this node", Question: "Adopt this node?", LogFile: in.LogFile,
		Plan:  func() (change.Result, error) { return preview, report.Err(preflight.Policy{}) },
		Check: func(context.Context) error { return report.Err(preflight.Policy{}) },
		Run: func(ctx context.Context, p *change.Progress) (change.Result, error) {
			if _, err := in.Run(ctx, steps(p)); err != nil {
				return change.Result{}, err
			}
			fmt.Fprintf(a.Err, "this node is adopted, in %s, log %s\n", p.Took(100*time.Millisecond), in.LogFile())
			if in.First() {
				fmt.Fprintln(a.Err, "run the same command on every other node; then give a bundle to 'sealift upgrade'")
			}
			return adopted, nil
		},
		Next: func(context.Context, error) string {
			return "what is done stays done; continue with: " + adopt.Resume()
		},
	})
}

// printAdoption prints the findings and the planned changes for people.
func (a commands) printAdoption(in *adopt.Adoption, report preflight.Report) error {
	if err := report.WriteTable(a.Out); err != nil {
		return err
	}
	c, role := in.Found.Cluster, "worker"
	switch {
	case in.First():
		role = "first control plane"
	case in.Found.Host.ControlPlane:
		role = "control plane"
	}
	fmt.Fprintf(a.Out, "\n%s, %s of a cluster with Kubernetes %s; pods %s, services %s\n", in.Found.Host.Name, role, c.Version, c.Pods, c.Services)
	var addOns []string
	for _, one := range in.Found.AddOns() {
		addOns = append(addOns, one.Name+" "+one.Version)
	}
	fmt.Fprintf(a.Out, "add-ons: %s\nstays on the host, also after a reset: %s\n\n", strings.Join(addOns, ", "), strings.Join(in.Stays(), ", "))
	return a.printSteps(in.Pending())
}
