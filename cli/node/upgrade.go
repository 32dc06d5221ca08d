package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/change"
	"github.com/sealift/sealift/installer/cluster/controlplane"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/install"
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
				return app.NoSuchCommand(cmd, words[0])
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
	plan, report, err := a.planUpgrade(ctx, c, options, o)
	if err != nil {
		return err
	}
	planned := change.Result{
		Document: map[string]any{"plan": plan, "checks": append([]preflight.Result{}, report.Results...)},
		Text:     func() error { return a.printUpgradePlan(plan, report) },
	}
	if plan.Empty() {
		planned.Text = change.Line(a.Out, "nothing to do: the cluster runs the versions and options of the bundle")
		return change.Print(a.App, o.Flags, planned)
	}
	if !o.Plan {
		if err := report.Err(preflight.Policy{}); err != nil {
			return err
		}
		fmt.Fprint(a.Notes(o.Format), plan)
	}
	var began begunUpgrade
	return change.Do(ctx, a.App, o.Flags, change.Work{
		To: "upgrade the cluster", Question: "Upgrade the cluster?", Unasked: true,
		Plan: func() (change.Result, error) { return planned, report.Err(preflight.Policy{}) },
		Run: func(ctx context.Context, p *change.Progress) (change.Result, error) {
			for _, stop := range append(plan.Stops, "") {
				if err := a.runUpgrade(ctx, options, stop, name, o, p, &began); err != nil {
					return change.Result{}, err
				}
				p.Line("log: " + began.log)
			}
			took := p.Took(time.Second)
			return change.Result{
				Document: map[string]any{"plan": plan, "seconds": took.Seconds(), "log": began.log},
				Text:     change.Line(a.Out, "done: the cluster is upgraded, in %s", took),
			}, nil
		},
		LogFile: func() string { return began.log },
		Next: func(ctx context.Context, err error) string {
			if began.resume == "" {
				return ""
			}
			return "what is done stays done; " + nextStep(ctx, err, began.resume)
		},
	})
}

// begunUpgrade is what a person needs who looks after an upgrade that has begun.
type begunUpgrade struct{ log, resume string }

// planUpgrade makes the plan and, unless there is nothing to do, checks this host and the cluster.
func (a commands) planUpgrade(ctx context.Context, c *upgrade.Cluster, options install.Options, o upgradeOptions) (plan upgrade.Plan, report preflight.Report, err error) {
	in, err := c.Prepare(ctx, options, "")
	if err != nil {
		return plan, report, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	fmt.Fprintln(a.Err, o.source.trust(in, o.keys))
	if plan = c.Plan(in); !plan.Empty() {
		report, err = a.checkCluster(ctx, c, in, !o.Plan)
	}
	return plan, report, err
}

// checkCluster checks this host and the cluster. If it asks, the other nodes and the hooks of add-ons are asked too.
func (a commands) checkCluster(ctx context.Context, c *upgrade.Cluster, in *install.Install, ask bool) (preflight.Report, error) {
	report, err := preflight.Run(ctx, c.Checks(in, ask))
	if err != nil {
		return report, err
	}
	runs := install.RunNothing
	if ask {
		runs = install.RunHooks
	}
	here, err := in.Preflight(ctx, install.PreflightOptions{Node: preflight.Node{Primary: true, Upgrade: true}, Runs: runs})
	report.Results = append(report.Results, here.Results...)
	return report, err
}

func (a commands) printUpgradePlan(plan upgrade.Plan, report preflight.Report) error {
	if err := report.WriteTable(a.Out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.Out, "\n%s", plan)
	return err
}

// runUpgrade takes all nodes to one stop, or to the end.
func (a commands) runUpgrade(ctx context.Context, options install.Options, stop, name string, o upgradeOptions, p *change.Progress, began *begunUpgrade) (err error) {
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
		p.Line(fmt.Sprintf("all nodes go to Kubernetes %s first", stop))
	}
	*began = begunUpgrade{in.LogFile(), in.Resume()}
	o.how.Observe, o.how.Say, o.how.Output = steps(p), p.Line, in.Log
	return c.Run(ctx, in, o.how)
}

func (a commands) upgradeStatusCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show how far the last upgrade is",
		Long:    "Show how far the last upgrade of the cluster is, node by node. Run the command as root on any control plane. In a cluster\nwithout an upgrade, the \"upgrade\" of -o json is null.",
		Example: "  sealift upgrade status\n  sealift upgrade status -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			admin, err := controlplane.AsAdministrator()
			if err != nil {
				return err
			}
			return a.showUpgrade(cmd.Context(), admin.Client, format)
		},
	}
	app.AddOutputFlag(cmd, &format)
	return cmd
}

// showUpgrade prints the newest upgrade of a cluster. A cluster that was never upgraded is not an error.
func (a commands) showUpgrade(ctx context.Context, client kubernetes.Interface, format string) error {
	state, paused, err := upgrade.Read(ctx, client)
	if errors.Is(err, upgrade.ErrNone) {
		return a.Print(format, map[string]any{"upgrade": nil, "paused": false}, change.Line(a.Out, "%v", err))
	}
	if err != nil {
		return err
	}
	return a.Print(format, map[string]any{"upgrade": state, "paused": paused}, func() error { return a.printUpgrade(state, paused) })
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
