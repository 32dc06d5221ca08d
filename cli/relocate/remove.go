package relocate

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/addon"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/change"
	"github.com/sealift/sealift/installer/install/relocate"
	"github.com/sealift/sealift/internal/plaintext"
)

type removeOptions struct {
	change.Flags
	clusterFlags
	protected bool
	provided  []string
}

func (a commands) removeCommand() *cobra.Command {
	var o removeOptions
	cmd := &cobra.Command{
		Use:   "remove NAME...",
		Short: "Remove add-ons that 'sealift addon apply' applied",
		Long: `Remove the objects of add-ons that 'sealift addon apply' applied. Namespaces, CustomResourceDefinitions and volume claims stay
with everything in them, unless --protected is given.

Add-ons that the installer or a channel owns are refused, and those that another applied add-on requires, by name or by what
they provide: remove both, or name with --provided what the cluster has without them. Add-ons that an earlier Sealift applied
name no requirements until they are applied again.

Add-ons that require others are removed first. If the command is interrupted, run it again with the names that
'sealift addon list' still shows.

Exit codes: 0 removed, 1 failure, 2 wrong usage, 3 refused before anything was changed.`,
		Example: `  sealift addon remove metallb --plan
  sealift addon remove metallb traefik --yes
  sealift addon remove metallb --protected --yes -o json
  sealift addon remove local-path-provisioner --provided storage --plan`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error { return a.remove(cmd.Context(), names, o) },
	}
	o.Flags.Add(cmd, "the objects that would be deleted")
	o.clusterFlags.add(cmd.Flags())
	cmd.Flags().StringSliceVar(&o.provided, "provided", nil, "names and capabilities that the cluster has without these add-ons, such as storage; may be repeated")
	cmd.Flags().BoolVar(&o.protected, "protected", false, "delete namespaces, CustomResourceDefinitions and volume claims too, with everything in them")
	return cmd
}

func (a commands) remove(ctx context.Context, names []string, o removeOptions) error {
	config, err := o.load()
	if err != nil {
		return err
	}
	prepared, err := relocate.PrepareRemoval(ctx, config, relocate.RemovalOptions{Names: names, Protected: o.protected, Provided: o.provided})
	if err != nil {
		return unchanged(err)
	}
	document := func(all []relocate.AddOn) change.Result {
		return change.Result{Document: map[string]any{"cluster": config.Host, "addOns": all}, Text: func() error { return a.print(all, o.Plan) }}
	}
	return change.Do(ctx, a.App, o.Flags, change.Work{
		To:       "remove add-ons from the cluster at " + config.Host,
		Question: fmt.Sprintf("Remove %s from the cluster at %s?", strings.Join(names, ", "), config.Host),
		Plan:     func() (change.Result, error) { return document(prepared.Plan()), nil },
		Run: func(ctx context.Context, _ *change.Progress) (change.Result, error) {
			done, err := prepared.Run(ctx, a.Notes(o.Format))
			return document(done), err
		},
	})
}

func (a commands) listCommand() *cobra.Command {
	var o clusterFlags
	var format string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the add-ons of a cluster, with their owners",
		Long: `List the add-ons of a cluster that Sealift applied, with the version and the owner of each: addon-apply, the installer, or a
channel.`,
		Example: "  sealift addon list\n  sealift addon list --kubeconfig prod.conf -o json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.list(cmd.Context(), o, format) },
	}
	o.add(cmd.Flags())
	app.AddOutputFlag(cmd, &format)
	return cmd
}

func (a commands) list(ctx context.Context, o clusterFlags, format string) error {
	config, err := o.load()
	if err != nil {
		return err
	}
	records, err := relocate.List(ctx, config)
	if err != nil {
		return err
	}
	if records == nil {
		records = []addon.Record{}
	}
	return a.Print(format, records, func() error {
		if len(records) == 0 {
			_, err := fmt.Fprintln(a.Out, "no add-ons")
			return err
		}
		table := plaintext.NewTable(tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0))
		table.Println("ADD-ON\tVERSION\tOWNER\tSET")
		for _, r := range records {
			table.Printf("%s\t%s\t%s\t%s\n", r.Name, dash(r.Version), r.Owner, r.Set)
		}
		return table.Flush()
	})
}
