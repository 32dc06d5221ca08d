// Package channel is the commands that keep a cluster right: they apply objects, and follow channels.
package channel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sealift/sealift/channel"
	"github.com/sealift/sealift/cli/app"
	clusterconfig "github.com/sealift/sealift/cli/kubeconfig"
	"github.com/sealift/sealift/internal/plaintext"
)

func (a commands) channelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "channel",
		Short: "Keep the add-ons of a cluster at the versions of a channel",
		Long: `A channel is an index of add-on versions, a file of kind Addons in kOps's format. The version for a cluster depends
on its Kubernetes version and on what is recorded as installed. An add-on is changed only when its entry is new.

If this program is called by the name channels, it is a replacement for kOps's tool of that name: 'channels get
addons', 'channels apply channel s3://bucket/addons.yaml --yes'.`,
		Example: `  sealift channel plan -f addons.yaml
  sealift channel apply s3://clusters/prod/addons.yaml --yes
  sealift channel get`,
	}
	cmd.AddCommand(a.channelGetCommand(), a.channelPlanCommand(), a.channelApplyCommand(), a.channelReleaseCommand(), a.channelIndexCommand(), a.channelBuildCommand())
	return cmd
}

// channelFlags are those of every command that reads indexes.
type channelFlags struct {
	files      []string
	bootstrap  bool
	kubeconfig string
}

func (f *channelFlags) add(flags *pflag.FlagSet) {
	flags.StringSliceVarP(&f.files, "filename", "f", nil, "index, or manifest of one add-on, at a path or a URL; may be given more than once")
	flags.BoolVar(&f.bootstrap, "bootstrap", false, "the indexes are for one cluster only: refuse entries with a kubernetesVersion")
}

func addAdopt(flags *pflag.FlagSet, adopt *[]string) {
	flags.StringSliceVar(adopt, "adopt", nil, "adopt this add-on again although it was released to the installer; may be repeated")
}

func addKubeconfig(flags *pflag.FlagSet, kubeconfig *string) {
	flags.StringVar(kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; default $KUBECONFIG, then ~/.kube/config")
}

// place is an index as the user named it, and its location.
type place struct {
	name string
	at   *url.URL
}

// places lists every index, in the order of the command line: CHANNELs, then files.
func (f *channelFlags) places(channels []string) ([]place, error) {
	var places []place
	for _, name := range channels {
		at, err := channel.ParseChannel(name)
		if err != nil {
			return nil, app.WithCode(app.ExitUsage, err)
		}
		places = append(places, place{name, at})
	}
	for _, name := range f.files {
		at, err := channel.ParseFile(name)
		if err != nil {
			return nil, app.WithCode(app.ExitUsage, err)
		}
		places = append(places, place{name, at})
	}
	if len(places) == 0 {
		return nil, app.WithCode(app.ExitUsage, channel.ErrNoChannel)
	}
	return places, nil
}

// read reads every index.
func (f *channelFlags) read(ctx context.Context, source channel.Source, places []place) ([]channel.Entry, error) {
	var entries []channel.Entry
	var errs []error
	for _, p := range places {
		index, err := source.Index(ctx, p.at, p.name)
		if err == nil && f.bootstrap {
			err = index.CheckBootstrap()
		}
		errs = append(errs, err)
		entries = append(entries, index.Entries...)
	}
	// Without one of them it is not known which versions the others may override.
	return entries, errors.Join(errs...)
}

// newCluster connects to the cluster of a kubeconfig.
func (a commands) newCluster(kubeconfig string) (*channel.Cluster, error) {
	cfg, err := clusterconfig.Load(kubeconfig, "")
	if err != nil {
		return nil, err
	}
	return channel.Connect(cfg, a.Log)
}

func (a commands) channelGetCommand() *cobra.Command {
	var kubeconfig, format string
	cmd := &cobra.Command{
		Use:   "get [addons]",
		Short: "List the add-ons that are recorded as installed",
		Long: `List the recorded add-ons. The records are annotations addons.k8s.io/NAME of namespaces, which kOps also reads and
writes. VERSION and HASH are - if the channel gave none.

Add-ons that the installer owns are listed without a namespace: 'sealift channel apply' adopts those that a channel names.
OWNER and FORMER are shown when an add-on has or had another owner than a channel.`,
		Example: `  sealift channel get
  sealift channel get -o json > records.json`,
		Args: onlyWord("addons", "addon"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.channelGet(cmd.Context(), kubeconfig, format) },
	}
	addKubeconfig(cmd.Flags(), &kubeconfig)
	app.AddOutputFlag(cmd, &format)
	return cmd
}

// onlyWord allows a redundant argument in kOps's words.
func onlyWord(words ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("at most one argument, %q", words[0])
		}
		for _, word := range words {
			if len(args) == 0 || args[0] == word {
				return nil
			}
		}
		unknown := fmt.Sprintf("there is nothing called %q to %s; it can be %q", args[0], cmd.Name(), words[0])
		return app.UnknownCommand(unknown)
	}
}

func (a commands) channelGet(ctx context.Context, kubeconfig, format string) error {
	cluster, err := a.newCluster(kubeconfig)
	if err != nil {
		return err
	}
	installed, err := cluster.Installed(ctx)
	if err != nil {
		return err
	}
	if format == "json" {
		return a.PrintJSON(installed)
	}
	if len(installed) == 0 {
		_, err := fmt.Fprint(a.Out, "\nNo managed addons found\n")
		return err
	}
	rows := [][]string{{"NAMESPACE", "NAME", "VERSION", "HASH", "CHANNEL"}}
	owners := slices.ContainsFunc(installed, func(r channel.Installed) bool { return r.Owner != "" || r.Former != "" })
	if owners {
		rows[0] = append(rows[0], "OWNER", "FORMER")
	}
	for _, r := range installed {
		row := []string{cmp.Or(r.Namespace, "-"), r.Name, cmp.Or(channel.VersionOf(r.Version), "-"), cmp.Or(r.ManifestHash, "-"), cmp.Or(r.Channel, "-")}
		if owners {
			row = append(row, cmp.Or(r.Owner, "channel"), cmp.Or(r.Former, "-"))
		}
		rows = append(rows, row)
	}
	return printTable(a.Out, rows)
}

// printTable writes rows separated by tabs: at least one, even after a cell as wide as a tab stop.
func printTable(w io.Writer, rows [][]string) error {
	tabs := tabwriter.NewWriter(w, 0, 8, 1, '\t', tabwriter.TabIndent)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = plaintext.Line(cell)
		}
		if _, err := fmt.Fprintln(tabs, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return tabs.Flush()
}
