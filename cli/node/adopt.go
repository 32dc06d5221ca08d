package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/install/adopt"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/preflight"
)

type adoptOptions struct {
	adopt.Options
	plan    bool
	yes     bool
	verbose bool
	format  string
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
			o.verbose, _ = cmd.Flags().GetBool("verbose")
			return refuse(a.adopt(cmd.Context(), o))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Root, "root", node.DefaultRoot, "state folder of the node")
	flags.BoolVar(&o.plan, "plan", false, "print what was found and what would be done, and change nothing")
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	app.AddOutputFlag(cmd, &o.format)
	return cmd
}

func (a commands) adopt(ctx context.Context, o adoptOptions) (err error) {
	if o.verbose {
		o.Output = a.Err
	}
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
	if o.plan && o.format == "json" {
		err := a.PrintJSON(map[string]any{"found": in.Found, "addOns": in.Found.AddOns(), "checks": report.Results, "steps": in.Pending(), "stays": in.Stays()})
		return errors.Join(err, report.Err(preflight.Policy{}))
	}
	if len(in.Pending()) == 0 {
		fmt.Fprintln(a.Err, "nothing to do: this node is adopted")
		return a.adopted(in, o.format)
	}
	if o.plan || o.format != "json" {
		if err := a.printAdoption(in, report); err != nil {
			return err
		}
	}
	if err := report.Err(preflight.Policy{}); err != nil || o.plan {
		return err
	}
	if err := a.agree(o.yes, "adopt this node", "Adopt this node?"); err != nil {
		return err
	}
	return a.runAdoption(ctx, in, o.format)
}

func (a commands) runAdoption(ctx context.Context, in *adopt.Adoption, format string) error {
	defer a.tellOfInterruption(ctx)()
	began, events := time.Now(), a.Out
	if format == "json" {
		events = a.Err
	}
	if _, err := in.Run(ctx, func(e lifecycle.Event) { printEvent(events, e) }); err != nil {
		return fmt.Errorf("%w\nlog: %s\nwhat is done stays done; continue with: %s", err, in.LogFile(), adopt.Resume())
	}
	fmt.Fprintf(a.Err, "this node is adopted, in %s, log %s\n", time.Since(began).Round(100*time.Millisecond), in.LogFile())
	if in.First() {
		fmt.Fprintln(a.Err, "run the same command on every other node; then give a bundle to 'sealift upgrade'")
	}
	return a.adopted(in, format)
}

// adopted prints the result for programs.
func (a commands) adopted(in *adopt.Adoption, format string) error {
	if format != "json" {
		return nil
	}
	return a.PrintJSON(map[string]any{"found": in.Found, "addOns": in.Found.AddOns(), "stays": in.Stays()})
}

// printAdoption writes for people what was found and what would be done.
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
