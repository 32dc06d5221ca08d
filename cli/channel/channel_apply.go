package channel

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/channel"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/change"
)

type channelApplyOptions struct {
	channelFlags
	change.Flags
	verify   bool
	keys     []string
	prune    bool
	adopt    []string
	interval time.Duration
	listen   string
}

func (a commands) channelApplyCommand() *cobra.Command {
	var o channelApplyOptions
	cmd := &cobra.Command{
		Use:   "apply [channel] CHANNEL... [-f FILE]... --yes",
		Short: "Update the add-ons of a cluster to the versions of channels",
		Long: `Read channels and decide which add-ons to install or update. With --yes, do it. A later channel overrides an earlier
one if its entry is newer. If one add-on fails, the others continue. If several runs meet on one cluster, one works
and the others wait.

A CHANNEL is a URL (file://, http://, https://, s3://bucket/key) or an absolute path. Objects are applied server-side
under kOps's field manager, as kOps does. If an entry has prune rules, objects that a new version no longer contains
are deleted. Images are not included: the nodes must have them, or be able to reach a registry.

An add-on that 'sealift install' has applied is adopted: its objects move to the channel in place, and none is deleted.
Without --yes, the command lists these add-ons. 'sealift channel release' gives an add-on back.

With --interval, the command keeps running, and http://127.0.0.1:3986/readyz reports whether the last pass succeeded.`,
		Example: `  sealift channel apply -f addons.yaml --yes
  sealift channel apply s3://clusters/prod/addons.yaml https://mirror.example.com/extra/addons.yaml --yes
  sealift channel apply file:///srv/channel/addons.yaml --yes --interval 1m`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && args[0] == "channel" {
				args = args[1:]
			}
			return a.channelApply(cmd.Context(), args, o)
		},
	}
	flags := cmd.Flags()
	o.add(flags)
	o.Flags.Add(cmd, "the updates, as without --yes")
	flags.BoolVar(&o.verify, "verify", false, "refuse a manifest whose hash differs from the index's manifestHash")
	flags.StringArrayVar(&o.keys, "key", nil, "public key that every package must be signed with; nothing but packages is applied then; may be repeated")
	flags.BoolVar(&o.prune, "prune", false, "also prune add-ons without prune rules, by their set and selector")
	addAdopt(flags, &o.adopt)
	flags.DurationVar(&o.interval, "interval", 0, "apply repeatedly with this pause, such as 1m, until the process is stopped")
	flags.StringVar(&o.listen, "listen", channel.DefaultListen, "address for /readyz with --interval")
	addKubeconfig(flags, &o.kubeconfig)
	return cmd
}

func (a commands) channelApply(ctx context.Context, channels []string, o channelApplyOptions) error {
	if o.interval < 0 {
		return app.UsageError("--interval must not be negative")
	}
	places, err := o.places(channels)
	if err != nil {
		return err
	}
	cluster, err := a.newCluster(o.kubeconfig)
	if err != nil {
		return err
	}
	source := channel.Source{Log: a.Log, CAs: a.CAs, Verify: o.verify}
	if source.Trusted, err = app.PublicKeys(o.keys); err != nil {
		return err
	}
	pass := func(ctx context.Context) error { return a.channelPass(ctx, cluster, source, places, o) }
	if o.interval == 0 {
		return pass(ctx)
	}
	loop := channel.Loop{Interval: o.interval, Listen: o.listen, Log: a.Log, Listening: func(url string) {
		fmt.Fprintf(a.Err, "serving %s\n", url)
	}}
	return loop.Run(ctx, pass)
}

func (a commands) channelPass(ctx context.Context, cluster *channel.Cluster, source channel.Source, places []place, o channelApplyOptions) error {
	entries, err := o.read(ctx, source, places)
	if err != nil {
		return err
	}
	preview := o.Plan || !o.Yes
	decide := cluster.Plan
	if preview {
		decide = cluster.Preview
	}
	plan, err := decide(ctx, entries, o.adopt...)
	if err != nil {
		return err
	}
	a.warnSkipped(plan)
	updates := plan.Updates()
	if o.Format != "json" {
		if err := a.printDecisions(updates); err != nil {
			return err
		}
	}
	flags := o.Flags
	flags.Plan = preview
	return change.Do(ctx, a.App, flags, change.Work{
		Plan: func() (change.Result, error) {
			if len(updates) > 0 {
				plan.Moves, err = cluster.Moves(ctx, source, plan)
			}
			return change.Result{Document: plan, Text: func() error { return a.printMoves(plan, o.Flags) }}, err
		},
		Run: func(ctx context.Context, p *change.Progress) (change.Result, error) {
			done := []channel.Decision{}
			note := func(line string) { fmt.Fprintln(a.Err, line) }
			err := cluster.Apply(ctx, source, plan, channel.ApplyOptions{Prune: o.prune, Adopt: o.adopt, Note: note, Done: func(d channel.Decision) {
				done = append(done, d)
				if d.Entry.Version == nil || d.Action == channel.Issue {
					p.Line(fmt.Sprintf("Updated %q", d.Entry.Name))
					return
				}
				p.Line(fmt.Sprintf("Updated %q to %s", d.Entry.Name, *d.Entry.Version))
			}})
			return change.Result{Document: map[string]any{"updated": done}, Text: func() error { return nil }}, err
		},
		Next: change.Nothing,
	})
}

// printDecisions prints what would be updated, and why if that is not obvious.
func (a commands) printDecisions(updates []channel.Decision) error {
	if len(updates) == 0 {
		_, err := fmt.Fprintln(a.Out, "No update required")
		return err
	}
	if err := a.printUpdates(updates); err != nil {
		return err
	}
	for _, d := range updates {
		if d.Action == channel.Adopt || d.Action == channel.Conflict {
			fmt.Fprintf(a.Err, "%s %q: %s\n", d.Action, d.Entry.Name, d.Reason)
		}
	}
	return nil
}

// printMoves prints the objects that would move to the channel.
func (a commands) printMoves(plan channel.Plan, f change.Flags) error {
	if len(plan.Updates()) == 0 {
		return nil
	}
	for _, move := range plan.Moves {
		fmt.Fprintln(a.Err, move)
	}
	return a.mustSpecifyYes(f, "update")
}

// warnSkipped logs skipped entries that their author should check.
func (a commands) warnSkipped(plan channel.Plan) {
	for _, s := range plan.Skipped {
		if s.Warning {
			a.Log.Warn("an entry is skipped", "addon", s.Entry.Name, "channel", s.Entry.Channel, "reason", s.Reason)
		}
	}
}

// printUpdates writes the table of kOps: - is not installed or not to be changed, ? is a version that nobody told.
func (a commands) printUpdates(updates []channel.Decision) error {
	rows := [][]string{{"NAME", "CURRENT", "UPDATE", "PKI"}}
	for _, d := range updates {
		current, update, pki := "-", "-", "no"
		if d.Installed != nil {
			current = question(d.Installed.Version)
		}
		if d.Action != channel.Issue {
			update = question(d.Entry.Version)
		}
		if d.PKI {
			pki = "yes"
		}
		rows = append(rows, []string{d.Entry.Name, current, update, pki})
	}
	slices.SortFunc(rows[1:], slices.Compare)
	return printTable(a.Out, rows)
}

func question(version *string) string {
	if version == nil {
		return "?"
	}
	return *version
}
