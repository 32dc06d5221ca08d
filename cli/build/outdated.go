package build

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sealift/sealift/builder/config"
	"github.com/sealift/sealift/builder/upstream"
	"github.com/sealift/sealift/catalog/origin"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/plaintext"
	"github.com/sealift/sealift/internal/shellword"
)

// upstreams are the flags of commands that ask upstreams for versions.
type upstreams struct {
	within string
	ignore []string
}

func (u *upstreams) add(flags *pflag.FlagSet) {
	flags.Var(app.NewChoice(&u.within, origin.Lines()), "within", "only newer versions with the same major version, or the same major and minor version")
	flags.StringSliceVar(&u.ignore, "ignore", nil, "leave out NAME[.PARAMETER][@VERSION], such as containerd@2.4.*")
}

func (u *upstreams) query() (upstream.Query, error) {
	q := upstream.Query{Within: origin.Line(u.within)}
	for _, text := range u.ignore {
		ignore, err := upstream.ParseIgnore(text)
		if err != nil {
			return q, app.UsageError("--ignore: %v", err)
		}
		q.Ignore = append(q.Ignore, ignore)
	}
	return q, nil
}

// versionSource returns a source of versions behind the mirrors of a configuration.
func (a commands) versionSource(settings config.Config) *upstream.Source {
	return upstream.NewSource(upstream.Options{Mirrors: settings.Mirrors, CAs: a.CAs, GitHubToken: os.Getenv("GITHUB_TOKEN")})
}

type outdatedOptions struct {
	upstreams upstreams
	config    string
	check     bool
	format    string
}

func (a commands) addonOutdatedCommand() *cobra.Command {
	var o outdatedOptions
	cmd := &cobra.Command{
		Use:   "outdated [DIR]",
		Short: "List what upstreams have that the catalogue lacks",
		Long: `Compare the add-ons in DIR (default: addons) with their upstreams, by the rules under upstream: in the addon.yaml of
each template: GitHub releases, the Go module proxy, tags of registries, indexes of charts, apt and yum, and pages.
Mirrors of sealift.yaml apply. Nothing is changed.

Pre-releases, withdrawn versions and tags that are not versions do not count. The list names lines that upstream stopped
to maintain, and rules that forbid a version, such as a skipped minor version.

The exit code is 0 if every upstream answered, also if something is outdated; 1 if an upstream did not answer, and the
others are listed; with --check 3 if something is outdated. GITHUB_TOKEN raises GitHub's rate limit.`,
		Example: `  sealift addon outdated
  sealift addon outdated --within minor --ignore local-path-provisioner.BUSYBOX
  sealift addon outdated --check -o json | jq -r '.[] | select(.command) | .command'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.outdated(cmd.Context(), strings.Join(append(args, "addons")[:1], ""), o)
		},
	}
	flags := cmd.Flags()
	o.upstreams.add(flags)
	flags.BoolVar(&o.check, "check", false, "exit with 3 if something is outdated")
	flags.StringVar(&o.config, "config", "", "configuration file with mirrors (default: sealift.yaml of the working directory)")
	app.AddOutputFlag(cmd, &o.format)
	return cmd
}

func (a commands) outdated(ctx context.Context, dir string, o outdatedOptions) error {
	query, err := o.upstreams.query()
	if err != nil {
		return err
	}
	settings, err := config.Load(o.config)
	if err != nil {
		return err
	}
	catalogue, err := upstream.OpenCatalogue(dir)
	if err != nil {
		return err
	}
	source := a.versionSource(settings)
	defer source.Close()
	rows, err := source.Outdated(ctx, catalogue, query)
	if err != nil {
		return err
	}
	for i, r := range rows {
		if r.Updates() {
			rows[i].Command = updateCommand(dir, r)
		}
	}
	if err := a.Print(o.format, rows, func() error { return a.printOutdated(rows) }); err != nil {
		return err
	}
	return o.judge(rows)
}

// updateCommand returns the command line that writes the version of a row.
func updateCommand(dir string, r upstream.Row) string {
	command := "sealift addon update " + r.AddOn + " " + r.Newest
	if dir != "addons" {
		command += " --addons " + shellword.Quote(dir)
	}
	return command
}

// judge returns the error that sets the exit code.
func (o outdatedOptions) judge(rows []upstream.Row) error {
	failed, outdated := 0, 0
	for _, r := range rows {
		if r.Error != "" {
			failed++
		}
		if r.Status == upstream.Outdated {
			outdated++
		}
	}
	switch {
	case failed > 0:
		return fmt.Errorf("%d of %s could not be compared with upstream; the others are listed", failed, app.Counted(len(rows), "row"))
	case o.check && outdated > 0:
		return app.WithCode(app.ExitRefused, errors.New(app.Counted(outdated, "version")+" outdated"))
	}
	return nil
}

func (a commands) printOutdated(rows []upstream.Row) error {
	t := plaintext.NewTable(tabwriter.NewWriter(a.Out, 2, 0, 2, ' ', 0))
	t.Println("ADD-ON\tPARAMETER\tHAS\tNEWEST\tSTATUS\tUPSTREAM")
	for _, r := range rows {
		t.Printf("%s\t%s\t%s\t%s\t%s\t%s\n", r.AddOn, r.Parameter, cmp.Or(r.Has, "-"), cmp.Or(r.Newest, "-"), string(r.Status), cmp.Or(r.Upstream, "-"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range rows {
		name := r.AddOn + " " + r.Parameter
		for _, note := range append(r.Notes, r.Broken...) {
			fmt.Fprintf(a.Out, "%s: %s\n", name, note)
		}
		if r.Outside != "" {
			fmt.Fprintf(a.Out, "%s: %s is newer and outside of --within\n", name, r.Outside)
		}
		if r.Error != "" {
			fmt.Fprintf(a.Err, "%s: %s\n", name, r.Error)
			if r.Hint != "" {
				fmt.Fprintf(a.Err, "  %s\n", r.Hint)
			}
		}
	}
	for _, r := range rows {
		if r.Command != "" {
			fmt.Fprintf(a.Out, "write it with: %s\n", r.Command)
		}
	}
	return nil
}
