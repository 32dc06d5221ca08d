// Package relocate is the commands that bring add-ons of a bundle to clusters that Sealift did not install.
package relocate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/archive"
	"github.com/sealift/sealift/cli/change"
	"github.com/sealift/sealift/cli/installers"
	clusterconfig "github.com/sealift/sealift/cli/kubeconfig"
	"github.com/sealift/sealift/installer/host/bundlepolicy"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/install/relocate"
	"github.com/sealift/sealift/internal/plaintext"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/registry"
	"github.com/sealift/sealift/store"
)

// commands makes and runs the commands of this package.
type commands struct{ *app.App }

// Commands makes the commands apply, remove and list of 'sealift addon'.
func Commands(in *app.App) []*cobra.Command {
	a := commands{in}
	return []*cobra.Command{a.applyCommand(), a.removeCommand(), a.listCommand()}
}

// clusterFlags name a cluster.
type clusterFlags struct{ kubeconfig, context string }

func (c *clusterFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; default $KUBECONFIG, then ~/.kube/config")
	flags.StringVar(&c.context, "context", "", "context of the kubeconfig; default its current one")
}

func (c *clusterFlags) load() (*rest.Config, error) {
	return clusterconfig.Load(c.kubeconfig, c.context)
}

type applyOptions struct {
	change.Flags
	clusterFlags
	changes  installers.Adjustment
	keys     []string
	registry string
	plain    bool
	base     string
	provided []string
	older    bool
	wait     time.Duration
	verdict  string
}

func (a commands) applyCommand() *cobra.Command {
	var o applyOptions
	cmd := &cobra.Command{
		Use:   "apply ARCHIVE|DIR|URL NAME... [NAME.OPTION=VALUE...]",
		Short: "Apply add-ons of a bundle to a cluster that Sealift did not install",
		Long: `Apply add-ons of a bundle or a package to the cluster of a kubeconfig, whoever installed it. Objects that the new
version of an add-on no longer has are pruned. The add-ons must be ready within the time of --wait.

With --registry, pods get their images from REGISTRY/PREFIX, which 'sealift push' has filled from the same archive; the
registry is asked whether it has them. Without it, images keep upstream's names: the container runtimes of the cluster must
find them by themselves, such as by the configuration that 'sealift push --write-config' writes.

Options are those of the bundle's Installer. --patch FILE overrides the Installer, and NAME.OPTION=VALUE overrides both.

Only add-ons that need nothing of the nodes can be applied: no packages and files on hosts, no programs of a node such
as kubectl, and no hooks but the one that applies the objects and its preflights. These two run on this machine, and
only if everything that they call works on texts and on files of their own. Others are refused, with what they need.
Checks of hosts do not run: 'sealift preflight' runs them on a host.

What an add-on requires must be in the cluster, or be applied with it. A Ready node shows a pod network, and a default
storage class shows storage; --provided names what else the cluster has.

An add-on has one owner. If the installer or a channel owns it, it is refused, and so is an object that somebody else has
made, such as Helm: the command names each, and changes nothing. If it is interrupted, run it again.

Exit codes: 0 applied, 1 failure, 2 wrong usage, 3 refused before anything was changed.`,
		Example: `  sealift addon apply cluster.tar.gz metallb --registry harbor.corp/mirror --ca-cert ca.pem --plan
  sealift addon apply cluster.tar.gz metallb traefik --registry harbor.corp/mirror --yes
  sealift addon apply metallb-0.16.2.tar.gz metallb metallb.addresses=10.0.0.40-10.0.0.60 --key release.pub
  sealift addon apply cluster.tar.gz cert-manager --provided pod-network --plan -o json`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return a.apply(cmd.Context(), args[0], args[1:], o) },
	}
	flags := cmd.Flags()
	o.Flags.Add(cmd, "the objects that would change, and the images")
	o.clusterFlags.add(flags)
	flags.StringVar(&o.registry, "registry", "", "HOST/PREFIX of the registry with the images of the bundle")
	flags.BoolVar(&o.plain, "plain-http", false, "speak HTTP without TLS to the registry")
	flags.StringArrayVar(&o.keys, "key", nil, "public key that the archive must be signed with; may be repeated")
	flags.StringVar(&o.verdict, "verdict", "", "file with the verdict of 'sealift verdict', if this machine demands one and it does not lie beside the archive")
	archive.AddBaseFlag(cmd, &o.base)
	flags.StringSliceVar(&o.provided, "provided", nil, "names and capabilities that the cluster has, such as ingress; may be repeated")
	flags.BoolVar(&o.older, "allow-downgrade", false, "accept older versions than those that were applied")
	flags.DurationVar(&o.wait, "wait", 5*time.Minute, "how long to wait for each add-on to be ready; 0 does not wait")
	_ = cmd.MarkFlagFilename("key", "pub")
	_ = cmd.MarkFlagFilename("verdict", "json")
	o.changes.Add(cmd)
	return cmd
}

// options reads the command line.
func (a commands) options(ctx context.Context, from string, words []string, o applyOptions, transport http.RoundTripper) (relocate.Options, error) {
	r := relocate.Options{Provided: o.provided, AllowDowngrade: o.older, Wait: o.wait, Output: warnings{a.Err}}
	var changes []string
	for _, word := range words {
		if strings.Contains(word, "=") {
			changes = append(changes, word)
		} else {
			r.Names = append(r.Names, word)
		}
	}
	if len(r.Names) == 0 {
		return r, app.UsageError("name the add-ons to apply after the archive")
	}
	o.changes.Take(changes)
	keys, err := app.PublicKeys(o.keys)
	if err != nil {
		return r, err
	}
	r.Bundle = install.Options{Bundle: from, Trusted: keys, Verdict: o.verdict, Adjust: o.changes.Apply, Open: func() (*bundle.Archive, error) {
		return archive.OpenWithBase(ctx, store.Opener{Log: a.Log, CAs: a.CAs}, from, o.base, keys...)
	}}
	if o.registry == "" {
		return r, nil
	}
	url := o.registry
	if !strings.Contains(url, "://") {
		url = "oci://" + url
	}
	target, err := registry.ParseTarget(url, o.plain)
	if err != nil {
		return r, app.UsageError("--registry: %v", err)
	}
	r.Registry = &registry.Options{Target: target, Transport: transport}
	return r, nil
}

// warnings is a writer that passes on what hooks warn of.
type warnings struct{ to io.Writer }

// Write implements io.Writer.
func (w warnings) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		if strings.HasPrefix(line, "warning: ") {
			fmt.Fprint(w.to, line)
		}
	}
	return len(p), nil
}

// applied is the JSON of apply.
type applied struct {
	Cluster    string           `json:"cluster"`
	Kubernetes string           `json:"kubernetes"`
	Registry   string           `json:"registry,omitempty"`
	AddOns     []relocate.AddOn `json:"addOns"`
}

func (a commands) apply(ctx context.Context, from string, words []string, o applyOptions) (err error) {
	transport := fetch.NewTransport(a.CAs)
	defer transport.CloseIdleConnections()
	options, err := a.options(ctx, from, words, o, transport)
	if err != nil {
		return err
	}
	config, err := o.load()
	if err != nil {
		return err
	}
	prepared, err := relocate.Prepare(ctx, config, options)
	if err != nil {
		return unchanged(err)
	}
	defer func() { err = errors.Join(err, prepared.Close()) }()
	fmt.Fprintf(a.Err, "%s: %s\n", from, prepared.Trust())
	document := func(all []relocate.AddOn) change.Result {
		d := applied{Cluster: config.Host, Kubernetes: prepared.Kubernetes(), AddOns: all}
		if options.Registry != nil {
			d.Registry = options.Registry.Target.String()
		}
		return change.Result{Document: d, Text: func() error { return a.print(all, o.Plan) }}
	}
	return change.Do(ctx, a.App, o.Flags, change.Work{
		To:       "apply add-ons to the cluster at " + config.Host,
		Question: fmt.Sprintf("Apply %s to the cluster at %s?", app.Counted(len(prepared.Plan()), "add-on"), config.Host),
		Plan:     func() (change.Result, error) { return document(prepared.Plan()), nil },
		Run: func(ctx context.Context, _ *change.Progress) (change.Result, error) {
			done, err := prepared.Run(ctx, a.Notes(o.Format))
			return document(done), err
		},
	})
}

// unchanged adds to an error that nothing was changed. A refusal has its own exit code.
func unchanged(err error) error {
	_, refused := errors.AsType[*relocate.RefusedError](err)
	_, forbidden := errors.AsType[*bundlepolicy.RefusedError](err)
	if refused || forbidden || errors.Is(err, bundle.ErrUntrusted) {
		return app.WithCode(app.ExitRefused, change.Unchanged(err))
	}
	return change.Unchanged(err)
}

// print writes a table of the add-ons, and with details what would change in them.
func (a commands) print(all []relocate.AddOn, details bool) error {
	table := plaintext.NewTable(tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0))
	table.Println("ADD-ON\tVERSION\tBEFORE\tOBJECTS")
	for _, one := range all {
		table.Printf("%s\t%s\t%s\t%s\n", one.Name, dash(one.Version), dash(one.From), one.Summary())
	}
	if err := table.Flush(); err != nil || !details {
		return err
	}
	for _, one := range all {
		for _, entry := range one.Entries {
			if entry.Action != kube.Unchanged {
				fmt.Fprintf(a.Out, "%s: %s\n", one.Name, entry)
			}
		}
		for _, image := range one.Images {
			fmt.Fprintf(a.Out, "%s: image %s becomes %s\n", one.Name, image.From, image.To)
		}
		if one.HostChecks {
			fmt.Fprintf(a.Out, "%s: its checks of hosts do not run here\n", one.Name)
		}
	}
	return nil
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
