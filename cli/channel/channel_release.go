package channel

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/channel"
	"github.com/sealift/sealift/cli/change"
)

type channelReleaseOptions struct {
	change.Flags
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
	o.Add(cmd, "what would be given back, as without --yes")
	addKubeconfig(cmd.Flags(), &o.kubeconfig)
	return cmd
}

func (a commands) channelRelease(ctx context.Context, addOns []string, o channelReleaseOptions) error {
	cluster, err := a.newCluster(o.kubeconfig)
	if err != nil {
		return err
	}
	var backs []channel.Handback
	for _, addOn := range addOns { // all of them are looked at before the first one is given back
		back, err := cluster.PlanRelease(ctx, addOn)
		if err != nil {
			return err
		}
		backs = append(backs, back)
	}
	result := change.Result{Document: backs, Text: func() error { return nil }}
	flags := o.Flags
	flags.Plan = o.Plan || !o.Yes
	return change.Do(ctx, a.App, flags, change.Work{
		Plan: func() (change.Result, error) {
			result.Text = func() error {
				for _, back := range backs {
					fmt.Fprintln(a.Out, back)
				}
				return a.mustSpecifyYes(o.Flags, "release")
			}
			return result, nil
		},
		Run: func(ctx context.Context, p *change.Progress) (change.Result, error) {
			for _, back := range backs {
				p.Line(back.String())
			}
			for i, addOn := range addOns {
				if err := cluster.Release(ctx, addOn, func(line string) { fmt.Fprintln(a.Err, line) }); err != nil {
					return change.Result{}, fmt.Errorf("release %q: %w", addOn, err)
				}
				p.Line(fmt.Sprintf("Released %q", addOn))
				backs[i].Done = true
			}
			return result, nil
		},
	})
}

// mustSpecifyYes prints kOps's words for a change that is only shown.
func (a commands) mustSpecifyYes(f change.Flags, to string) error {
	if f.Plan {
		return nil
	}
	_, err := fmt.Fprintf(a.Out, "\nMust specify --yes to %s\n", to)
	return err
}
