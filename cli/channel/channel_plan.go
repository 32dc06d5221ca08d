package channel

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/channel"
	"github.com/sealift/sealift/cli/app"
)

type channelPlanOptions struct {
	channelFlags
	kubernetesVersion string
	records           string
	adopt             []string
	format            string
}

func (a commands) channelPlanCommand() *cobra.Command {
	var o channelPlanOptions
	cmd := &cobra.Command{
		Use:   "plan CHANNEL... [-f FILE]...",
		Short: "Show what channels would change in a cluster, and why",
		Long: `Read channels and print the outcome of every entry with its reason: installed, adopted from the installer, updated,
kept, or skipped because of another entry; or in conflict with another owner. Objects that move from one add-on to another
are listed too. The command changes nothing.

With --kubernetes-version, no cluster is needed: the plan is for a new cluster of this version, or for the cluster
whose records are in --records, a file of 'sealift channel get -o json'.`,
		Example: `  sealift channel plan -f addons.yaml
  sealift channel plan -f addons.yaml -o json | jq -r '.addons[] | select(.action != "keep") | .entry.name + ": " + .reason'
  sealift channel plan -f addons.yaml --kubernetes-version v1.36.3 --records records.json`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.channelPlan(cmd.Context(), args, o) },
	}
	flags := cmd.Flags()
	o.add(flags)
	flags.StringVar(&o.kubernetesVersion, "kubernetes-version", "", "plan for a cluster of this version without connecting to one, such as v1.36.3")
	flags.StringVar(&o.records, "records", "", "with --kubernetes-version, the cluster's records: a file of 'sealift channel get -o json'")
	addAdopt(flags, &o.adopt)
	addKubeconfig(flags, &o.kubeconfig)
	app.AddOutputFlag(cmd, &o.format)
	return cmd
}

func (a commands) channelPlan(ctx context.Context, channels []string, o channelPlanOptions) error {
	if o.records != "" && o.kubernetesVersion == "" {
		return app.UsageError("--records goes with --kubernetes-version; a cluster has records of its own")
	}
	places, err := o.places(channels)
	if err != nil {
		return err
	}
	source := channel.Source{Log: a.Log, CAs: a.CAs}
	entries, err := o.read(ctx, source, places)
	if err != nil {
		return err
	}
	var plan channel.Plan
	if o.kubernetesVersion != "" {
		plan, err = planOffline(entries, o)
	} else {
		var cluster *channel.Cluster
		if cluster, err = a.newCluster(o.kubeconfig); err == nil {
			plan, err = cluster.Preview(ctx, entries, o.adopt...)
		}
		if err == nil {
			plan.Moves, err = cluster.Moves(ctx, source, plan)
		}
	}
	if err != nil {
		return err
	}
	if o.format == "json" {
		return a.PrintJSON(plan)
	}
	a.warnSkipped(plan)
	rows := [][]string{{"NAME", "NAMESPACE", "VERSION", "ACTION", "REASON"}}
	for _, d := range plan.Addons {
		rows = append(rows, []string{d.Entry.Name, d.Entry.Namespace, cmp.Or(channel.VersionOf(d.Entry.Version), "-"), string(d.Action), d.Reason})
	}
	for _, s := range plan.Skipped {
		rows = append(rows, []string{s.Entry.Name, s.Entry.Namespace, cmp.Or(channel.VersionOf(s.Entry.Version), "-"), "skip", s.Reason})
	}
	if len(rows) == 1 {
		_, err := fmt.Fprintln(a.Out, "the channels have no add-ons")
		return err
	}
	err = printTable(a.Out, rows)
	for _, move := range plan.Moves {
		fmt.Fprintln(a.Out, move)
	}
	return err
}

func planOffline(entries []channel.Entry, o channelPlanOptions) (channel.Plan, error) {
	var records []channel.Installed
	if o.records != "" {
		data, err := os.ReadFile(o.records)
		if err != nil {
			return channel.Plan{}, fmt.Errorf("read records: %w", err)
		}
		if err := json.Unmarshal(data, &records); err != nil {
			return channel.Plan{}, fmt.Errorf("read records %s: %w; it has to be the output of 'sealift channel get -o json'", o.records, err)
		}
	}
	plan, err := channel.NewPlan(entries, o.kubernetesVersion, records, o.adopt...)
	if err != nil {
		return plan, app.UsageError("--kubernetes-version: %w; write it as v1.36.3", err)
	}
	return plan, nil
}
