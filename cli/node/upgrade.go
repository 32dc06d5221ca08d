package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/cluster/controlplane"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/operation/upgrade"
	"github.com/sealift/sealift/internal/plaintext"
	"github.com/sealift/sealift/preflight"
)

type upgradeOptions struct {
	bundleOptions
	how upgrade.Options
}

func (a commands) upgradeCommand() *cobra.Command {
	var o upgradeOptions
	cmd := &cobra.Command{
		Use:   "upgrade --bundle FILE | --from URL [NAME=VALUE...]",
		Short: "Upgrade the cluster to the versions of a bundle",
		Long: `Upgrade all nodes and add-ons of this host's cluster to the versions of a bundle. Run the command as root on a control
plane. Nobody has to log in to the other nodes: their agents do the work there, and download what they lack from this
node. With the same versions, the command adds add-ons and changes options.

The command first checks the cluster, and reports problems before it changes anything. Then it brings files and images
to every node, saves a snapshot of etcd, and upgrades the control planes one by one, and then the workers. The pods of
a node move to other nodes before its kubelet changes, as their PodDisruptionBudgets allow. The next node begins when
the node and its pods are Ready. The add-ons come last.

Kubernetes goes from one minor version to the next. A bundle that was made with 'sealift bundle --upgrade-from' has the
versions between, and the cluster stops at each of them.

If the upgrade is interrupted, run the same command again, on any control plane, to continue it.`,
		Example: `  sealift upgrade --bundle /media/usb/cluster.tar.gz --plan
  sealift upgrade --bundle /media/usb/cluster.tar.gz --yes
  sealift upgrade --bundle /media/usb/cluster.tar.gz --max-unavailable 3 --drain-timeout 30m
  sealift upgrade --from https://sealift.example.com/abc1234
  sealift upgrade status
  sealift upgrade pause`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, words []string) error {
			if len(words) > 0 && o.source == (bundleSource{}) && !strings.Contains(words[0], "=") { // one of kURL's flags needs a bundle, too
				return app.UnknownCommand(fmt.Sprintf("unknown command %q for %q; see '%s --help'", words[0], cmd.CommandPath(), cmd.CommandPath()))
			}
			if err := o.take(append(words, a.TrustedWords()...)); err != nil {
				return err
			}
			return a.upgrade(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	o.add(cmd, "the changes, the order of the nodes and the checks")
	flags.IntVar(&o.how.MaxUnavailable, "max-unavailable", 1, "number of workers that may be away at once")
	flags.DurationVar(&o.how.DrainTimeout, "drain-timeout", 10*time.Minute, "how long the pods of a node may take to leave it")
	cmd.AddCommand(a.upgradeStatusCommand(), a.pauseCommand("pause", true), a.pauseCommand("resume", false), a.undoCommand())
	return cmd
}

func (a commands) upgrade(ctx context.Context, o upgradeOptions) (err error) {
	if err := o.source.check("upgrade"); err != nil {
		return err
	}
	if o.how.MaxUnavailable < 1 || o.how.DrainTimeout <= 0 {
		return app.UsageError("--max-unavailable and --drain-timeout must be more than nothing")
	}
	options, err := o.options(ctx, a)
	if err != nil {
		return err
	}
	name, err := host.Name()
	if err != nil {
		return err
	}
	c, err := upgrade.Open(ctx, name, a.Err)
	if err != nil {
		return err
	}
	plan, err := a.planUpgrade(ctx, c, options, o)
	if err != nil || plan.Empty() || o.Plan {
		return err
	}
	if !o.Yes && !a.Confirm("Upgrade the cluster?") {
		return errors.New("not confirmed; nothing was changed")
	}
	began := time.Now()
	for _, stop := range append(plan.Stops, "") {
		if err := a.runUpgrade(ctx, options, stop, name, o); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.Out, "done: the cluster is upgraded, in %s\n", time.Since(began).Round(time.Second))
	return nil
}

// planUpgrade makes and prints the plan, after the checks that it passes.
func (a commands) planUpgrade(ctx context.Context, c *upgrade.Cluster, options install.Options, o upgradeOptions) (plan upgrade.Plan, err error) {
	in, err := c.Prepare(ctx, options, "")
	if err != nil {
		return plan, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	fmt.Fprintln(a.Err, o.source.trust(in, o.keys))
	plan = c.Plan(in)
	if plan.Empty() {
		fmt.Fprintln(a.Out, "nothing to do: the cluster runs the versions and options of the bundle")
		return plan, nil
	}
	report, err := a.checkCluster(ctx, c, in, !o.Plan)
	if err != nil {
		return plan, err
	}
	if o.Plan {
		return plan, a.printUpgradePlan(plan, report, o.Format)
	}
	if err := report.Err(preflight.Policy{}); err != nil {
		return plan, err
	}
	fmt.Fprint(a.Out, plan)
	return plan, nil
}

// checkCluster checks this host and the cluster.
func (a commands) checkCluster(ctx context.Context, c *upgrade.Cluster, in *install.Install, ask bool) (preflight.Report, error) {
	report, err := preflight.Run(ctx, c.Checks(in, ask))
	if err != nil {
		return report, err
	}
	here, err := in.Preflight(ctx, install.PreflightOptions{Node: preflight.Node{Primary: true, Upgrade: true}, Runs: install.RunNothing})
	report.Results = append(report.Results, here.Results...)
	return report, err
}

func (a commands) printUpgradePlan(plan upgrade.Plan, report preflight.Report, format string) error {
	if format == "json" {
		if err := a.PrintJSON(map[string]any{"plan": plan, "checks": report.Results}); err != nil {
			return err
		}
		return report.Err(preflight.Policy{})
	}
	if err := report.WriteTable(a.Out); err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "\n%s", plan)
	return report.Err(preflight.Policy{})
}

// runUpgrade takes all nodes to one stop, or to the end.
func (a commands) runUpgrade(ctx context.Context, options install.Options, stop, name string, o upgradeOptions) (err error) {
	defer a.tellOfInterruption(ctx)()
	c, err := upgrade.Open(ctx, name, a.Err)
	if err != nil {
		return err
	}
	in, err := c.Prepare(ctx, options, stop)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	if stop != "" {
		fmt.Fprintf(a.Out, "all nodes go to Kubernetes %s first\n", stop)
	}
	var mu sync.Mutex // several nodes are at work at once
	o.how.Observe = func(e lifecycle.Event) {
		mu.Lock()
		defer mu.Unlock()
		printEvent(a.Out, e)
	}
	o.how.Say = func(line string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(a.Out, line)
	}
	o.how.Output = in.Log
	if err := c.Run(ctx, in, o.how); err != nil {
		return fmt.Errorf("%w\nlog: %s\nwhat is done stays done; %s", err, in.LogFile(), nextStep(ctx, err, in.Resume()))
	}
	fmt.Fprintf(a.Out, "log: %s\n", in.LogFile())
	return nil
}

func (a commands) upgradeStatusCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show how far the last upgrade is",
		Long:    "Show how far the last upgrade of the cluster is, node by node. Run the command as root on any control plane.",
		Example: "  sealift upgrade status\n  sealift upgrade status -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			admin, err := controlplane.AsAdministrator()
			if err != nil {
				return err
			}
			state, paused, err := upgrade.Read(cmd.Context(), admin.Client)
			if err != nil {
				return err
			}
			if format == "json" {
				return a.PrintJSON(map[string]any{"upgrade": state, "paused": paused})
			}
			return a.printUpgrade(state, paused)
		},
	}
	app.AddOutputFlag(cmd, &format)
	return cmd
}

func (a commands) printUpgrade(s upgrade.State, paused bool) error {
	fmt.Fprintf(a.Out, "Kubernetes %s -> %s, led by %s, began %s: %s", s.From, s.To, s.Leader, s.Began.Format(time.RFC3339), s.Phase)
	if paused && s.Phase != upgrade.Finished {
		fmt.Fprint(a.Out, ", paused")
	}
	fmt.Fprintln(a.Out)
	t := plaintext.NewTable(tabwriter.NewWriter(a.Out, 2, 0, 2, ' ', 0))
	t.Println("NODE\tSTAGE\tTOOK\tAWAY\tERROR")
	for _, name := range slices.Sorted(maps.Keys(s.Nodes)) {
		n := s.Nodes[name]
		stage := n.Stage
		if stage == upgrade.Waiting {
			stage = "waiting"
		}
		t.Printf("%s\t%s\t%.0f s\t%.0f s\t%s\n", name, stage, n.Took, n.Away, n.Error)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if s.Error != "" {
		fmt.Fprintf(a.Out, "the last run ended with: %s\n", s.Error)
	}
	return nil
}

func (a commands) pauseCommand(use string, paused bool) *cobra.Command {
	short, long := "Let no further node begin", "Let no further node begin. Nodes that have begun are finished."
	if !paused {
		short, long = "Let further nodes begin", "Let further nodes begin, after 'sealift upgrade pause'."
	}
	return &cobra.Command{
		Use: use, Short: short, Long: long + " Run the command as root on any control plane.", Example: "  sealift upgrade " + use, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			admin, err := controlplane.AsAdministrator()
			if err != nil {
				return err
			}
			return upgrade.SetPaused(cmd.Context(), admin.Client, paused)
		},
	}
}
