package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/installers"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/spec"
)

type preflightOptions struct {
	source  bundleSource
	keys    []string
	root    string
	join    bool
	primary bool
	yes     bool
	format  string
	checks  install.PreflightOptions
}

func (a commands) preflightCommand() *cobra.Command {
	var o preflightOptions
	cmd := &cobra.Command{
		Use:   "preflight --bundle FILE | --from URL | -f INSTALLER" + a.withStore(" [--store URL]"),
		Short: "Check this host for problems before an install",
		Long: `Run the checks of an install and report what would fail, with what to do about it. The checks are Sealift's own,
those of the bundle's add-ons (host-preflight.yaml), and those of the Installer (kurl.hostPreflights). The command
changes nothing and keeps nothing.

Checks of the Installer may run commands as root. Checks from a local file or bundle are shown and run. Checks from
a server are shown, and run only with --yes or after you agree on a terminal. Otherwise they are skipped with a
warning.

With a bundle, the required disk space is computed from its content. With only an Installer, the checks of add-ons
are not available.` + a.withStore(` With --store, they are taken from the Installer's packages there.`) + `

Exit code 3 means that an install would refuse this host.`,
		Example: `  sealift preflight --bundle /media/usb/cluster.tar.gz
  sealift preflight --from https://sealift.example.com/abc1234
  sealift preflight -f installer.yaml -o json | jq '.results[] | select(.status != "pass")'
  sealift preflight --bundle cluster.tar.gz --join --control-plane --primary-host 10.0.0.1` + a.withStore(`
  sealift preflight -f installer.yaml --store /media/usb/packages`),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.preflight(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	o.source.add(cmd)
	flags.StringVarP(&o.source.file, "file", "f", "", "an Installer to check without a bundle; - for standard input")
	o.source.addStore(cmd, a)
	flags.StringArrayVar(&o.keys, "key", nil, "public key that the bundle must be signed with; may be repeated")
	addRoot(cmd, &o.root)
	flags.BoolVar(&o.join, "join", false, "check the host for joining a cluster")
	flags.BoolVar(&o.primary, "control-plane", false, "with --join: check for an additional control plane")
	flags.BoolVar(&o.checks.Node.Upgrade, "upgrade", false, "check the host for an upgrade")
	flags.StringArrayVar(&o.checks.Node.PrimaryHosts, "primary-host", nil, "address of a control plane that the host must be able to reach; may be repeated")
	flags.StringArrayVar(&o.checks.Node.SecondaryHosts, "secondary-host", nil, "address of a worker; may be repeated")
	flags.BoolVarP(&o.yes, "yes", "y", false, "with --from: run the commands of the Installer without asking")
	addPreflightFlags(cmd, &o.checks)
	app.AddOutputFlag(cmd, &o.format)
	for _, name := range []string{"file", "key"} {
		_ = cmd.MarkFlagFilename(name)
	}
	cmd.AddCommand(a.cisCommand())
	return cmd
}

// addPreflightFlags adds flags for host checks and their policy to a command. kURL's names for them (kURL §2.3) mean the same.
// Call it before kURL's words are added: a word that is added first replaces the flag.
func addPreflightFlags(cmd *cobra.Command, o *install.PreflightOptions) {
	flags := cmd.Flags()
	flags.BoolVar(&o.Policy.Ignore, "ignore", false, "continue despite failed checks; they are still reported and recorded")
	flags.BoolVar(&o.Policy.EnforceWarnings, "enforce-warnings", false, "treat warnings as failures")
	flags.BoolVar(&o.ExcludeBuiltin, "exclude-builtin", false, "run only the Installer's checks")
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
	alone := o.source.file != "" && o.source.store == "" // the Installer
	if o.source.name() == "" || alone && o.source != (bundleSource{file: o.source.file}) {
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
	if alone {
		s, err := installers.Load(a.In, o.source.file)
		if err != nil {
			return err
		}
		a.printExecutions(s.CheckExecutions())
		if record, err = install.CheckHost(ctx, s, binary, o.checks); err != nil {
			return err
		}
		return a.printRecord(record, o.format)
	}
	if err := o.source.check("preflight"); err != nil {
		return err
	}
	options, err := o.source.options(ctx, a, o.root, o.keys, install.Options{Binary: binary, Upgrade: upgrading(o.checks.Node.Upgrade)})
	if err != nil {
		return err
	}
	in, err := install.Inspect(ctx, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	o.checks.Runs = a.allowed(in, o)
	if record, err = in.Preflight(ctx, o.checks); err != nil {
		return err
	}
	return a.printRecord(record, o.format)
}

// upgrading returns the options for looking at a host as one that gets newer versions.
func upgrading(upgrade bool) *install.Upgrade {
	if !upgrade {
		return nil
	}
	return &install.Upgrade{Leads: true}
}

// allowed shows the commands of a bundle's checks, and returns how much of that may run.
func (a commands) allowed(in *install.Install, o preflightOptions) install.Running {
	all := in.CheckExecutions(o.checks)
	a.printExecutions(all)
	if len(all) == 0 || !o.source.remote() || o.yes || a.CanAsk() && a.Confirm("Run them?") {
		return install.RunAll
	}
	return install.RunAddOns
}

// printExecutions lists what runs on this host before it does.
func (a commands) printExecutions(all []spec.Execution) {
	if len(all) > 0 {
		fmt.Fprintln(a.Err, "these run as root on this host, besides the steps of an install:")
	}
	for _, e := range all {
		fmt.Fprintf(a.Err, "  %s\n", e)
	}
}

func (a commands) printRecord(r preflight.Record, format string) error {
	err := a.Print(format, r, func() error {
		if err := r.WriteTable(a.Out); err != nil {
			return err
		}
		_, err := fmt.Fprintf(a.Out, "\n%d passed, %d warnings, %d failed\n", r.Count(preflight.Pass), r.Count(preflight.Warn), r.Count(preflight.Fail))
		return err
	})
	return cmp.Or(err, r.Err())
}

// checkHost checks the host before the first change to it. A host that is refused is left as it is, without a trace.
func (a commands) checkHost(ctx context.Context, in *install.Install, o install.PreflightOptions) (preflight.Record, error) {
	record, err := in.Preflight(ctx, o)
	if err != nil {
		return record, err
	}
	if err := record.Err(); err != nil {
		return record, err
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
