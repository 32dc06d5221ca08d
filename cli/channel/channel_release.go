package channel

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

type channelReleaseOptions struct {
	yes        bool
	kubeconfig string
}

func (a commands) channelReleaseCommand() *cobra.Command {
	var o channelReleaseOptions
	cmd := &cobra.Command{
		Use:   "release ADDON... --yes",
		Short: "Give add-ons back to the installer that had them before",
		Long: `Give add-ons back that 'sealift channel apply' has adopted from the installer. The objects move as they are: none is
deleted, changed or recreated. Afterwards 'sealift install' with the bundle of the cluster applies the bundle's version.

Channels leave a released add-on alone, even when they still list it, until 'sealift channel apply --adopt ADDON'. Without
--yes nothing is changed. If the command is interrupted, run it again.`,
		Example: `  sealift channel release metrics-server
  sealift channel release metrics-server --yes
  sealift channel release kube-system/flannel kube-system/metrics-server --yes`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, addOns []string) error { return a.channelRelease(cmd.Context(), addOns, o) },
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.yes, "yes", "y", false, "give them back; without it the command only prints the plan")
	addKubeconfig(flags, &o.kubeconfig)
	return cmd
}

func (a commands) channelRelease(ctx context.Context, addOns []string, o channelReleaseOptions) error {
	cluster, err := a.newCluster(o.kubeconfig)
	if err != nil {
		return err
	}
	// All of them are looked at before the first one is given back.
	for _, addOn := range addOns {
		back, err := cluster.PlanRelease(ctx, addOn)
		if err != nil {
			return err
		}
		fmt.Fprintln(a.Out, back)
	}
	if !o.yes {
		_, err := fmt.Fprint(a.Out, "\nMust specify --yes to release\n")
		return err
	}
	for _, addOn := range addOns {
		if err := cluster.Release(ctx, addOn, func(line string) { fmt.Fprintln(a.Err, line) }); err != nil {
			return fmt.Errorf("release %q: %w", addOn, err)
		}
		fmt.Fprintf(a.Out, "Released %q\n", addOn)
	}
	return nil
}
