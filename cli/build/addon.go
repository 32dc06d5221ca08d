package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/catalog/lint"
	"github.com/sealift/sealift/catalog/references"
	"github.com/sealift/sealift/catalog/template"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/hooks/hook"
	"github.com/sealift/sealift/installer/hooks/kurlbin"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/manifest"
	"github.com/sealift/sealift/testgrid/gridspec"
)

func (a commands) addonCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "addon",
		Short:   "Check add-ons, write new versions of them, and apply them to any cluster",
		Long:    "Check add-ons against the rules for production and against their upstreams, and write new versions from their templates.\nApply add-ons of a bundle to a cluster that Sealift did not install, and remove them.",
		Example: "  sealift addon lint addons\n  sealift addon outdated\n  sealift addon update containerd\n  sealift addon apply cluster.tar.gz metallb --plan",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.addonLintCommand(), a.addonOutdatedCommand(), a.addonUpdateCommand(), a.addonNewVersionCommand())
	return cmd
}

func (a commands) addonLintCommand() *cobra.Command {
	var format string
	var o sources
	var production, write bool
	cmd := &cobra.Command{
		Use:   "lint [ADDON_DIR|TREE...]",
		Short: "List what add-ons lack for production",
		Long: `List what add-ons lack for production, as file:line:col, with all findings at once. Without arguments, the tree
addons is checked.

An add-on needs:
- a Manifest without mistakes, with every image that its YAML and its hooks need;
- an install.sh in bash. Its functions begin with the add-on's name, and call only programs of a bare host, of the
  cluster or of a package in the Manifest, their own functions, and the functions that hooks are given;
- kubeadm patches that can be converted to the version that today's kubeadm reads;
- an addon.yaml;
- a host-preflight.yaml (Troubleshoot's HostPreflight) and a troubleshoot.yaml (its SupportBundle, also in a
  Secret);
- if it has several versions, a template that they follow and link to.

Lint fetches and renders the charts of the Manifest. It lists the images that their values name and do not use. An add-on
with a Chart.yaml, templates/, hooks/ or enabled beside its Manifest is a module of addon-operator: lint renders its chart
with its default values, and reads its hooks. --write adds the images that its pods need to the Manifest.

Add-ons without addon.yaml, such as kURL's, need no host-preflight.yaml and no troubleshoot.yaml. Their versions may
be copies, and most findings are only warnings.

With --production every add-on needs what lets it be merged without human approval: something that writes new versions
(template/Manifest.tmpl, or a script in template/); tests in testgrid.yaml, or in template/testgrid/ as kURL's add-ons
have them; host-preflight.yaml; troubleshoot.yaml; and functions with its name. Its tests must install it without a
network and look at it. If it has a hook for hosts that join, a test needs a second host; if it has several versions,
a test upgrades it.

Exit codes: 0 no errors, 1 errors, 2 wrong usage.`,
		Example: "  sealift addon lint\n  sealift addon lint addons/flannel/0.26.7 -o json\n  sealift addon lint --production",
		RunE: func(cmd *cobra.Command, paths []string) error {
			if len(paths) == 0 {
				paths = []string{"addons"}
			}
			if write {
				if err := a.addImages(cmd.Context(), paths, o); err != nil {
					return err
				}
			}
			return a.lintAddOns(cmd.Context(), paths, o, production, format)
		},
	}
	o.addForCharts(cmd.Flags())
	cmd.Flags().BoolVar(&write, "write", false, "first add the images that pods need to the Manifests that lack them; lock the add-ons then")
	cmd.Flags().BoolVar(&production, "production", false, "also require a generator, tests, host checks and a support bundle")
	app.AddOutputFlag(cmd, &format)
	return cmd
}

func (a commands) lintAddOns(ctx context.Context, paths []string, o sources, production bool, format string) error {
	dirs, err := lint.Find(paths...)
	if err != nil {
		return err
	}
	functions, err := hook.PreludeFunctions()
	if err != nil {
		return err
	}
	l := lint.New(lint.Core{Functions: functions, Programs: kurlbin.Names()}, charts{a, o})
	if production {
		l = l.ForProduction(gridTests)
	}
	all := []diag.Finding{}
	for _, dir := range dirs {
		findings, err := l.AddOn(ctx, dir)
		if err != nil {
			return err
		}
		all = append(all, findings...)
	}
	circle, err := lint.Circle(dirs)
	if err != nil {
		return err
	}
	all = append(all, circle...)
	return a.printFindings(all, format, app.Counted(len(dirs), "add-on"))
}

// addImages writes the images that pods need to the Manifests that lack them.
func (a commands) addImages(ctx context.Context, paths []string, o sources) error {
	dirs, err := lint.Find(paths...)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		missing, err := references.Missing(ctx, dir, charts{a, o})
		if mistakes := (diag.Errors{}); errors.As(err, &mistakes) {
			continue // lint tells them
		}
		if err != nil {
			return err
		}
		added, err := manifest.AddImages(filepath.Join(dir, manifest.FileName), missing)
		if err != nil {
			return err
		}
		for _, image := range added {
			fmt.Fprintf(a.Err, "%s: image %s %s was added\n", filepath.Join(dir, manifest.FileName), image.ID, image.Ref)
		}
	}
	return nil
}

// gridTests reads a file of tests as the test grid does, for one version of an add-on.
func gridTests(file, version string) (tests []lint.GridTest, err error) {
	read, err := gridspec.Load(file, gridspec.Values{Version: version})
	if err != nil {
		return nil, err
	}
	for _, t := range read.Tests {
		tests = append(tests, lint.GridTest{Install: t.Install, Upgrade: t.Upgrade, Airgap: t.Airgap, Nodes: t.Nodes(), Checks: len(t.Expect) > 0 || t.PostInstall+t.PostUpgrade != ""})
	}
	return tests, nil
}

// charts renders the charts of add-ons that have some. All others are linted without a cache.
type charts struct {
	commands commands
	sources  sources
}

// Charts implements references.Charts.
func (c charts) Charts(ctx context.Context, dir string) (carried, named []string, findings []diag.Finding, err error) {
	err = c.with(func(b *builder.Builder) error {
		carried, named, findings, err = b.Charts(ctx, dir)
		return err
	})
	return carried, named, findings, err
}

// Module implements references.Charts.
func (c charts) Module(ctx context.Context, dir string) (uses []references.Use, findings []diag.Finding, err error) {
	err = c.with(func(b *builder.Builder) error {
		uses, findings, err = b.Module(ctx, dir)
		return err
	})
	return uses, findings, err
}

// with calls do with a builder.
func (c charts) with(do func(*builder.Builder) error) error {
	settings, err := c.sources.options(c.commands)
	if err != nil {
		return err
	}
	store, err := c.sources.cache.open()
	if err != nil {
		return err
	}
	defer store.Close()
	b, err := builder.New(store, settings)
	if err != nil {
		return err
	}
	return do(b)
}

type newVersionOptions struct {
	sources      sources
	addons       string
	from         string
	set          map[string]string
	lock, noLock bool
	format       string
}

// newVersion is the JSON of addon new-version.
type newVersion struct {
	template.Version
	Lock *builder.Locked `json:"lock,omitempty"` // missing when the version was not locked
}

func (a commands) addonNewVersionCommand() *cobra.Command {
	var o newVersionOptions
	cmd := &cobra.Command{
		Use:   "new-version NAME VERSION",
		Short: "Write a new version of an add-on from its template",
		Long: `Write addons/NAME/VERSION from addons/NAME/template, lock it, and show what has changed since the newest version.

A template file that ends in .tmpl, such as Manifest.tmpl, is written with its parameters filled in. All other files
become links. ${VERSION} is the version. Other parameters come from --set, and otherwise from the version in --from.
An existing version is never changed.

The new version is locked if the network is available, and left unlocked otherwise; --lock and --no-lock decide. If
something cannot be resolved, no version is left behind.`,
		Example: `  sealift addon new-version kubernetes 1.36.4
  sealift addon new-version kubernetes 1.37.0 --set etcd=3.6.9-0 --set coredns=v1.14.3 --lock
  sealift addon new-version kubernetes 1.35.5 --from 1.35.4 --no-lock -o json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return a.newVersion(cmd.Context(), args[0], args[1], o) },
	}
	cmd.Flags().StringVar(&o.from, "from", "", "version that provides the other parameters (default: the newest)")
	o.addCommon(cmd)
	return cmd
}

// addCommon adds the flags of all commands that write a version.
func (o *newVersionOptions) addCommon(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.addons, "addons", "addons", "directory of the add-ons")
	flags.StringToStringVar(&o.set, "set", nil, "parameters of the template, such as etcd=3.6.9-0 for ${ETCD}")
	flags.BoolVar(&o.lock, "lock", false, "lock the version, and fail if the network is not available")
	flags.BoolVar(&o.noLock, "no-lock", false, "do not lock the version")
	o.sources.add(flags)
	app.AddOutputFlag(cmd, &o.format)
}

func (a commands) newVersion(ctx context.Context, name, version string, o newVersionOptions) error {
	written, err := a.writeVersion(ctx, name, version, o, nil)
	if err != nil {
		return err
	}
	return a.Print(o.format, written, func() error {
		a.printNewVersion(written.Version, written.Lock)
		return nil
	})
}

// writeVersion writes and locks a version. A check may refuse it before it is locked. Nothing is left behind if anything fails.
func (a commands) writeVersion(ctx context.Context, name, version string, o newVersionOptions, check func(template.Version) error) (newVersion, error) {
	if name != filepath.Base(name) || name == "." || name == ".." {
		return newVersion{}, app.UsageError("%q is not the name of an add-on", name)
	}
	if o.lock && o.noLock {
		return newVersion{}, app.UsageError("--lock and --no-lock exclude each other; choose one")
	}
	dir := filepath.Join(o.addons, name)
	t, err := template.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return newVersion{}, fmt.Errorf("add-on %s has no %s to write versions from: %w", name, filepath.Join(dir, template.DirName, template.ManifestFile), err)
	}
	if err != nil {
		return newVersion{}, err
	}
	v, err := t.Write(version, template.Options{From: o.from, Set: o.set})
	if _, ok := errors.AsType[*template.MissingError](err); ok {
		return newVersion{}, fmt.Errorf("%w; give each with --set NAME=VALUE", err)
	}
	if err != nil {
		return newVersion{}, err
	}
	if check != nil {
		if err := check(v); err != nil {
			return newVersion{}, errors.Join(err, os.RemoveAll(v.Dir))
		}
	}
	locked, err := a.lockNewVersion(ctx, v.Dir, o)
	if err != nil {
		return newVersion{}, errors.Join(fmt.Errorf("lock %s: %w\nnothing was written", v.Dir, err), os.RemoveAll(v.Dir))
	}
	return newVersion{Version: v, Lock: locked}, nil
}

// lockNewVersion locks a version, or returns nil when it is not to be locked or the network does not answer.
func (a commands) lockNewVersion(ctx context.Context, dir string, o newVersionOptions) (*builder.Locked, error) {
	if o.noLock {
		return nil, nil
	}
	settings, err := o.sources.options(a)
	if err != nil {
		return nil, err
	}
	if !o.lock {
		m, err := manifest.Load(filepath.Join(dir, manifest.FileName))
		if err != nil {
			return nil, err
		}
		if !builder.Online(ctx, settings.Config.Mirrors, a.CAs, m) {
			fmt.Fprintf(a.Err, "the network does not answer; lock the version later with: sealift lock %s\n", dir)
			return nil, nil
		}
	}
	b, watch, closeCache, err := o.sources.locker(a, settings)
	if err != nil {
		return nil, err
	}
	defer closeCache()
	locked, err := b.Lock(ctx, dir, builder.LockUpdate)
	watch.settle()
	return &locked, err
}

func (a commands) printNewVersion(v template.Version, locked *builder.Locked) {
	fmt.Fprintf(a.Out, "%s: written\n", v.Dir)
	for _, name := range slices.Sorted(maps.Keys(v.Parameters)) {
		from := ""
		if slices.Contains(v.Kept, name) {
			from = ", as in " + v.From
		}
		fmt.Fprintf(a.Out, "  with %s=%s%s\n", name, v.Parameters[name], from)
	}
	if v.ComparedTo != "" {
		fmt.Fprintf(a.Out, "compared to %s: %s\n", v.ComparedTo, app.Counted(len(v.Changes), "change"))
	}
	for _, change := range v.Changes {
		fmt.Fprintf(a.Out, "  %s\n", change)
	}
	if locked != nil {
		fmt.Fprintf(a.Out, "%s: written, %s\n", locked.Path, app.Counted(len(locked.Changes), "change"))
	}
}

// withoutTemplates leaves out the template folders, which addons/*/* also matches.
func withoutTemplates(dirs []string) []string {
	return slices.DeleteFunc(slices.Clone(dirs), func(dir string) bool { return filepath.Base(dir) == template.DirName })
}
