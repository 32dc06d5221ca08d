package node

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/change"
	"github.com/sealift/sealift/installer/agent"
	"github.com/sealift/sealift/installer/cluster/controlplane"
	"github.com/sealift/sealift/installer/cluster/oidc"
	"github.com/sealift/sealift/installer/cluster/registry"
	"github.com/sealift/sealift/installer/cluster/service"
	"github.com/sealift/sealift/installer/host/textfile"
	"github.com/sealift/sealift/installer/inspect/metrics"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/operation/readdress"
	"github.com/sealift/sealift/installer/operation/renewal"
	"github.com/sealift/sealift/installer/recovery/undo"
)

func (a commands) nodeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Change addresses of nodes and of the load balancer, or remove a node whose host is gone",
		Long: "Give this node another address, give the API of the cluster another load balancer, or remove a node whose host is\n" +
			"permanently gone from the cluster. Run 'sealift reset' on a host that still works.",
	}
	cmd.AddCommand(a.nodeReaddressCommand(), a.loadBalancerCommand(), a.nodeRemoveCommand())
	for _, daemon := range []struct {
		use, short string
		run        func(context.Context, string, *slog.Logger) error
	}{
		{"balance", "Give this node an address of the API that works while any control plane does", service.Balance},
		{"share", "Serve hosts that join the cluster", shareFiles},
		{"agent", "Renew the certificates of this node, take part in upgrades of the cluster, and write metrics", nil},
	} {
		var root string
		// services of a node run it; people have no use for it
		one := &cobra.Command{Use: daemon.use, Short: daemon.short, Hidden: true, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			log := slog.New(slog.NewTextHandler(a.Err, nil)) // the journal of systemd keeps all of it
			return daemon.run(cmd.Context(), root, log)
		}}
		addRoot(one, &root)
		if daemon.use == "agent" {
			metrics := one.Flags().String("metrics", textfile.DefaultFolder, "folder of node_exporter's textfile collector; none if empty")
			mirror := one.Flags().Bool("mirror", false, "let containerd ask control planes for images")
			options := func() service.AgentOptions { return service.AgentOptions{Metrics: *metrics, Mirror: *mirror} }
			daemon.run = func(ctx context.Context, root string, log *slog.Logger) error {
				return runAgent(ctx, root, options(), log)
			}
			a.addStart(one, &root, options)
		}
		cmd.AddCommand(one)
	}
	return cmd
}

// shareFiles serves joining hosts, and control planes that are undone with the whole cluster.
func shareFiles(ctx context.Context, root string, log *slog.Logger) error {
	mayJoin := func(ctx context.Context, client kubernetes.Interface) error {
		return exclusion.Host{Root: root}.Check(ctx, client, exclusion.JoinControlPlane)
	}
	return service.Share(ctx, root, undo.Store{Root: root}.For, mayJoin, log)
}

// inTurn runs work that restarts the API server of this node while no other control plane is down.
func inTurn(root string, log *slog.Logger) func(context.Context, func(context.Context) error) error {
	return func(ctx context.Context, work func(context.Context) error) error {
		keeper, err := renewal.New(root, log)
		if err != nil {
			return err
		}
		waiting := func(holder string) {
			log.Info("the API server restarts when another control plane has done its work", "holder", holder)
		}
		return keeper.InTurn(ctx, waiting, work)
	}
}

// runAgent runs the agent, the renewal of certificates, the wait for a new address, the registries that containerd asks, images for other nodes, the login by
// kubernetes.oidc, and the metrics. An agent that has to make room for another sealift has done its work.
func runAgent(ctx context.Context, root string, o service.AgentOptions, log *slog.Logger) error {
	ctx, stop := context.WithCancel(ctx)
	renewed := make(chan error, 1)
	go func() { renewed <- renewal.Run(ctx, root, log) }()
	var beside sync.WaitGroup
	beside.Go(func() { readdress.Watch(ctx, root, log) })
	beside.Go(func() { registry.Watch(ctx, o.Mirror, log) })
	if o.Mirror {
		beside.Go(func() { service.Peer(ctx, log) })
	}
	beside.Go(func() { oidc.Watch(ctx, log, inTurn(root, log)) })
	beside.Go(func() { metrics.Watch(ctx, root, o.Metrics, app.CurrentVersion().Version, log) })
	err := agent.Run(ctx, root, app.CurrentVersion().Version, log)
	stop()
	beside.Wait()
	err = errors.Join(err, <-renewed)
	if errors.Is(err, agent.ErrReplaced) {
		log.Info(err.Error())
		return nil
	}
	return err
}

// addStart adds the flag for nodes that an earlier sealift made: they have no unit of the agent yet.
func (a commands) addStart(cmd *cobra.Command, root *string, options func() service.AgentOptions) {
	start := cmd.Flags().Bool("start", false, "install the unit of systemd for the agent, start it, and end")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *start {
			return service.AgentWith(*root, options()).Start(cmd.Context(), a.Err)
		}
		return run(cmd, args)
	}
}

type nodeRemoveOptions struct {
	change.Flags
	force bool
}

func (a commands) nodeRemoveCommand() *cobra.Command {
	var o nodeRemoveOptions
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a node whose host is permanently gone from the cluster",
		Long: `Remove a node whose host is permanently gone from the cluster: its etcd member (which otherwise still counts towards
the majority), the node, its pods, and its entry in the list of API servers. Run the command as root on a control
plane.

The command refuses to remove a node that is alive: run 'sealift reset' on that host instead. It also refuses if the
remaining etcd members would not have a majority. If the host comes back later, run 'sealift reset --yes' on it.`,
		Example: `  sealift node remove host-2 --plan
  sealift node remove host-2 --yes`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.nodeRemove(cmd.Context(), args[0], o) },
	}
	cmd.Flags().BoolVar(&o.force, "force", false, "remove the node even if it is alive")
	o.Add(cmd, "what would be removed")
	return cmd
}

func (a commands) nodeRemove(ctx context.Context, name string, o nodeRemoveOptions) error {
	admin, err := controlplane.AsAdministrator()
	if err != nil {
		return err
	}
	remains, err := admin.Leftovers(ctx, name)
	if err != nil {
		return err
	}
	lines := strings.Join(remains.Lines(), "\n")
	return change.Do(ctx, a.App, o.Flags, change.Work{
		To: "remove node " + name, Question: lines + "\nRemove all of this for good?",
		Plan: func() (change.Result, error) {
			return change.Result{Document: remains, Text: change.Line(a.Out, "%s", lines)}, nil
		},
		Check: func(ctx context.Context) error { return remains.Check(ctx, o.force) },
		Run: func(ctx context.Context, p *change.Progress) (change.Result, error) {
			if err := remains.Remove(ctx, p.Line); err != nil {
				return change.Result{}, err
			}
			return change.Result{Document: remains, Text: func() error { return nil }}, nil
		},
	})
}
