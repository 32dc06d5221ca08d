package node

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer"
	"github.com/sealift/sealift/installer/node"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/spec"
)

type preflightOptions struct {
	source  bundleSource
	file    string
	keys    []string
	root    string
	join    bool
	primary bool
	yes     bool
	format  string
	checks  installer.PreflightOptions
}

func (a commands) preflightCommand() *cobra.Command {
	var o preflightOptions
	cmd := &cobra.Command{
		Use:   "preflight --bundle FILE | --from URL | -f INSTALLER",
		Short: "Look at this host and say what would go wrong, and what to do about it",
		Long: `Look at this host as an install does before it changes anything, and say what would go wrong: sealift's own checks,
those of the bundle's add-ons (host-preflight.yaml), and those of the Installer (kurl.hostPreflights). Nothing is
changed, and nothing is kept.

Checks of the Installer may run commands as root. Those of a file or a bundle on a disk are shown and run. Those of a server
are shown, and run with --yes or when you agree on a terminal; otherwise they are left out, with a warning.

With a bundle, on a disk or on a server, the room on the disks is computed from what is in it. With only an Installer,
add-ons are not asked.

Exit code 3 says that an install would refuse this host.`,
		Example: `  sealift preflight --bundle /media/usb/cluster.tar.gz
  sealift preflight --from https://sealift.example.com/abc1234
  sealift preflight -f installer.yaml -o json | jq '.results[] | select(.status != "pass")'
  sealift preflight --bundle cluster.tar.gz --join --control-plane --primary-host 10.0.0.1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return refuse(a.preflight(cmd.Context(), o)) },
	}
	flags := cmd.Flags()
	o.source.add(cmd)
	flags.StringVarP(&o.file, "file", "f", "", "the Installer, without a bundle")
	flags.StringArrayVar(&o.keys, "key", nil, "public key that the bundle must be signed with; may be repeated")
	flags.StringVar(&o.root, "root", node.DefaultRoot, "folder for what the node keeps")
	flags.BoolVar(&o.join, "join", false, "look at the host as one that joins a cluster")
	flags.BoolVar(&o.primary, "control-plane", false, "with --join: as one more control plane")
	flags.BoolVar(&o.checks.Node.Upgrade, "upgrade", false, "look at the host as a node that gets a newer version")
	flags.StringArrayVar(&o.checks.Node.PrimaryHosts, "primary-host", nil, "address of a control plane that the host must reach; may be repeated")
	flags.StringArrayVar(&o.checks.Node.SecondaryHosts, "secondary-host", nil, "address of a worker; may be repeated")
	flags.BoolVarP(&o.yes, "yes", "y", false, "with --from: run the commands of the Installer without asking")
	addPreflightFlags(cmd, &o.checks)
	app.AddOutputFlag(cmd, &o.format)
	for _, name := range []string{"file", "key"} {
		_ = cmd.MarkFlagFilename(name)
	}
	return cmd
}

// addPreflightFlags gives a command that looks at a host the flags for what to make of the answers. kURL's names for them
// (kURL §2.3) mean the same.
func addPreflightFlags(cmd *cobra.Command, o *installer.PreflightOptions) {
	flags := cmd.Flags()
	flags.BoolVar(&o.Policy.Ignore, "ignore", false, "go on in spite of failed checks; they are still reported, and kept with the node")
	flags.BoolVar(&o.Policy.EnforceWarnings, "enforce-warnings", false, "refuse the host for warnings too")
	flags.BoolVar(&o.ExcludeBuiltin, "exclude-builtin", false, "make no checks but those of the Installer")
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		switch name {
		case "host-preflight-ignore", "preflight-ignore":
			name = "ignore"
		case "host-preflight-enforce-warnings":
			name = "enforce-warnings"
		case "exclude-builtin-host-preflights", "exclude-builtin-preflights":
			name = "exclude-builtin"
		}
		return pflag.NormalizedName(name)
	})
}

func (a commands) preflight(ctx context.Context, o preflightOptions) (err error) {
	if (o.source.name() == "") == (o.file == "") {
		return app.UsageError("give --bundle, --from or -f; see 'sealift preflight --help'")
	}
	if o.primary && !o.join {
		return app.UsageError("--control-plane goes with --join; the first node always has one")
	}
	o.checks.Node.Join, o.checks.Node.Primary = o.join, o.primary
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	var record preflight.Record
	if o.file != "" {
		s, err := spec.Load(o.file)
		if err != nil {
			return err
		}
		a.printExecutions(s.CheckExecutions())
		if record, err = installer.CheckHost(ctx, s, binary, o.checks); err != nil {
			return err
		}
		return a.printRecord(record, o.format)
	}
	if err := o.source.check("preflight"); err != nil {
		return err
	}
	trusted, err := app.PublicKeys(o.keys)
	if err != nil {
		return err
	}
	in, err := installer.Prepare(installer.Options{Bundle: o.source.name(), Root: o.root, Binary: binary, Trusted: trusted, Remote: o.source.from != "", Online: o.source.from != "", Upgrade: o.checks.Node.Upgrade,
		Open: func() (*bundle.Archive, error) { return o.source.open(ctx, a, trusted...) }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	if o.checks.Runs, err = a.allowed(in, o); err != nil {
		return err
	}
	if record, err = in.Preflight(ctx, o.checks); err != nil {
		return err
	}
	return a.printRecord(record, o.format)
}

// allowed shows what the checks of a bundle run, and says how much of that may run.
func (a commands) allowed(in *installer.Install, o preflightOptions) (installer.Running, error) {
	all, err := in.CheckExecutions(o.checks)
	if err != nil {
		return installer.RunNothing, err
	}
	a.printExecutions(all)
	if len(all) == 0 || o.source.from == "" || o.yes || a.CanAsk() && a.Confirm("Run them?") {
		return installer.RunAll, nil
	}
	return installer.RunAddOns, nil
}

// printExecutions tells people what runs on this host before it does.
func (a commands) printExecutions(all []spec.Execution) {
	if len(all) > 0 {
		fmt.Fprintln(a.Err, "these run as root on this host, besides the steps of an install:")
	}
	for _, e := range all {
		fmt.Fprintf(a.Err, "  %s\n", e)
	}
}

func (a commands) printRecord(r preflight.Record, format string) error {
	if format == "json" {
		if err := a.PrintJSON(r); err != nil {
			return err
		}
		return r.Err()
	}
	if err := r.WriteTable(a.Out); err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "\n%d passed, %d warnings, %d failed\n", r.Count(preflight.Pass), r.Count(preflight.Warn), r.Count(preflight.Fail))
	return r.Err()
}

// checkHost looks at the host before the first change to it. A host that is refused is left as it is, without a trace.
func (a commands) checkHost(ctx context.Context, in *installer.Install, o installer.PreflightOptions) (preflight.Record, error) {
	record, err := in.Preflight(ctx, o)
	if err != nil {
		return record, err
	}
	if err := record.Err(); err != nil {
		return record, fmt.Errorf("%w\nnothing was changed", err)
	}
	for _, r := range record.Ignored() {
		fmt.Fprintf(a.Err, "ignored, though it failed: %s\n", r)
	}
	for _, r := range record.Results {
		if r.Status == preflight.Warn {
			fmt.Fprintf(a.Err, "warning: %s\n", r)
		}
	}
	return record, nil
}
