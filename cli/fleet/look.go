package fleet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/view"
	"github.com/sealift/sealift/internal/plaintext"
	"github.com/sealift/sealift/kube/render"
)

// table writes lines with tabs as columns.
func (a commands) table(lines ...string) error {
	w := tabwriter.NewWriter(a.Out, 0, 0, 3, ' ', 0)
	for _, line := range lines {
		fmt.Fprintln(w, strings.TrimRight(line, "\t "))
	}
	return w.Flush()
}

// ago formats how long ago something was.
func ago(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return time.Since(t).Round(time.Second).String() + " ago"
}

func (a commands) clustersCommand() *cobra.Command {
	var f hubFlags
	var format string
	cmd := &cobra.Command{
		Use:     "clusters",
		Short:   "List the clusters of the fleet",
		Example: "  sealift fleet clusters\n  sealift fleet clusters -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := f.view(a)
			if err != nil {
				return err
			}
			list, err := v.Clusters(cmd.Context())
			if err != nil || format == "json" {
				return orJSON(a, list, err)
			}
			lines := []string{"NAME\tAVAILABLE\tSEEN\tVERSION\tSET\tADD-ONS\t"}
			for _, c := range list {
				kind, addOns := "", strconv.Itoa(c.AddOns)
				if c.AddOns < 0 {
					addOns = "unknown"
				}
				switch {
				case c.Carried:
					kind = "carried"
				case c.Asleep:
					kind = "occasional, asleep"
				case c.Occasional:
					kind = "occasional"
				}
				lines = append(lines, plaintext.Row("%s\t%s\t%s\t%s\t%s\t%s\t%s", c.Name, c.Available, ago(c.LastSeen), cmp.Or(c.Version, "-"), cmp.Or(c.Set, "-"), addOns, kind))
			}
			return a.table(lines...)
		},
	}
	f.add(cmd)
	app.AddOutputFlag(cmd, &format)
	return cmd
}

func (a commands) carriedCommand() *cobra.Command {
	var f hubFlags
	var format string
	cmd := &cobra.Command{
		Use:   "carried",
		Short: "List the clusters without a connection, and what waits to be carried there",
		Long: `List the clusters that are reached by parcels: when they reported last, how many works they have, and which of these the
next parcel brings or removes. Works that failed are those that the cluster could not apply.`,
		Example: "  sealift fleet carried\n  sealift fleet carried -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := f.view(a)
			if err != nil {
				return err
			}
			list, err := v.Carried(cmd.Context())
			if err != nil || format == "json" {
				return orJSON(a, list, err)
			}
			lines := []string{"NAME\tREPORTED\tWORKS\tWAITING\tREMOVED\tFAILED"}
			for _, c := range list {
				names := func(works []string) string { return cmp.Or(strings.Join(works, ", "), "-") }
				lines = append(lines, plaintext.Row("%s\t%s\t%d\t%s\t%s\t%s", c.Name, ago(c.Reported), c.Works, names(c.Waiting), names(c.Removed), names(c.Failed)))
			}
			return a.table(lines...)
		},
	}
	f.add(cmd)
	app.AddOutputFlag(cmd, &format)
	return cmd
}

// orJSON prints a value, unless there is an error.
func orJSON(a commands, value any, err error) error {
	if err != nil {
		return err
	}
	return a.PrintJSON(value)
}

func (a commands) statusCommand() *cobra.Command {
	var f hubFlags
	var format string
	cmd := &cobra.Command{
		Use:     "status [ADDON]",
		Short:   "Say how far add-ons have come, or one add-on on each cluster",
		Example: "  sealift fleet status\n  sealift fleet status hello -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := f.view(a)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				one, err := v.AddOn(cmd.Context(), args[0])
				if err != nil || format == "json" {
					return orJSON(a, one, err)
				}
				return a.printAddOn(one)
			}
			list, err := v.AddOns(cmd.Context())
			if err != nil || format == "json" {
				return orJSON(a, list, err)
			}
			lines := []string{"NAME\tCLUSTERS\tAVAILABLE\tUNHEALTHY\tUNKNOWN\tROLLOUT"}
			for _, one := range list {
				done := "done"
				for _, p := range one.Placements {
					if !p.Done {
						done = "progressing"
					}
				}
				if one.Paused {
					done += ", paused"
				}
				lines = append(lines, plaintext.Row("%s\t%d\t%d\t%d\t%d\t%s", one.Name, one.Clusters, one.Available, one.Unhealthy, one.Unknown, done))
			}
			return a.table(lines...)
		},
	}
	f.add(cmd)
	app.AddOutputFlag(cmd, &format)
	return cmd
}

func (a commands) printAddOn(one view.AddOn) error {
	for _, p := range one.Placements {
		fmt.Fprintf(a.Out, "placement %s: %s\n", p.Placement, p.Message)
	}
	if one.Paused {
		fmt.Fprintln(a.Out, "paused: no other cluster starts")
	}
	lines := []string{"CLUSTER\tSTATUS\tWAVE\tAVAILABLE\tSEEN\t"}
	for _, r := range one.Rows {
		text := r.Message
		if r.Reason != "" {
			text = "waits for " + string(r.Reason)
		}
		if r.Skipped {
			text = fmt.Sprintf("Skip: not seen since %s; %s", r.LastSeen.UTC().Format(time.RFC3339), cmp.Or(text, "at work"))
		}
		lines = append(lines, plaintext.Row("%s\t%s\t%s\t%s\t%s\t%s", r.Cluster, r.Status, cmp.Or(r.Wave, "-"), r.Available, ago(r.LastSeen), text))
	}
	return a.table(lines...)
}

func (a commands) planCommand() *cobra.Command {
	var f hubFlags
	var format string
	var files []string
	cmd := &cobra.Command{
		Use:   "plan ADDON [-f CHANGE]...",
		Short: "Say which clusters would start when, and change nothing",
		Long: `Say which clusters would start when, if each of them succeeded, and change nothing. A file of -f has the add-on or
its configurations as they would be; the rest is taken from the hub.`,
		Example: "  sealift fleet plan hello\n  sealift fleet plan hello -f new-template.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			changed, err := a.read(files)
			if err != nil {
				return err
			}
			v, err := f.view(a)
			if err != nil {
				return err
			}
			plan, err := v.Plan(cmd.Context(), args[0], changed)
			if err != nil || format == "json" {
				return orJSON(a, plan, err)
			}
			return a.printPlan(plan)
		},
	}
	f.add(cmd)
	app.AddOutputFlag(cmd, &format)
	cmd.Flags().StringArrayVarP(&files, "filename", "f", nil, "file with changed objects, or - for the standard input; repeat it")
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
	return cmd
}

// read reads the objects of files.
func (a commands) read(files []string) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, name := range files {
		in := a.In
		if name != "-" {
			file, err := os.Open(name)
			if err != nil {
				return nil, err
			}
			defer file.Close()
			in = file
		}
		objects, err := render.Decode(in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, objects...)
	}
	return all, nil
}

func (a commands) printPlan(plan view.Plan) error {
	nothing := len(plan.AtOnce) == 0
	if !nothing {
		fmt.Fprintf(a.Out, "at once, outside of the rollout: %s\n", strings.Join(plan.AtOnce, ", "))
	}
	for _, p := range plan.Placements {
		fmt.Fprintf(a.Out, "placement %s\n", p.Placement)
		if p.Problem != "" {
			nothing = false
			fmt.Fprintf(a.Out, "  does not run: %s\n", p.Problem)
		}
		for i, s := range p.Steps {
			nothing = false
			after := ""
			if s.After > 0 {
				after = fmt.Sprintf(", after a soak of %s", s.After)
			}
			fmt.Fprintf(a.Out, "  step %d, wave %s%s: %s\n", i+1, s.Wave, after, strings.Join(s.Clusters, ", "))
		}
		for _, name := range slices.Sorted(maps.Keys(p.Held)) {
			nothing = false
			fmt.Fprintf(a.Out, "  %s does not start: it waits for %s\n", name, p.Held[name])
		}
		if len(p.Unchanged) > 0 {
			fmt.Fprintf(a.Out, "  unchanged: %s\n", strings.Join(p.Unchanged, ", "))
		}
	}
	if nothing {
		fmt.Fprintln(a.Out, "nothing to do")
	}
	return nil
}

func (a commands) pauseCommand() *cobra.Command {
	return a.markCommand("pause", "Let no other cluster start", `Let no other cluster start. Those at work go on. 'sealift fleet resume' ends the pause.`, "true",
		"%s is paused; clusters at work go on\n")
}

func (a commands) resumeCommand() *cobra.Command {
	return a.markCommand("resume", "Let a paused rollout go on", `Let a paused rollout go on.`, "", "%s goes on\n")
}

func (a commands) markCommand(verb, short, long, value, done string) *cobra.Command {
	var f hubFlags
	cmd := &cobra.Command{
		Use: verb + " ADDON", Short: short, Long: long, Example: "  sealift fleet " + verb + " hello", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, c, err := f.connect()
			if err != nil {
				return err
			}
			if err := mark(cmd.Context(), c, args[0], value); err != nil {
				return err
			}
			fmt.Fprintf(a.Out, done, args[0])
			return nil
		},
	}
	f.add(cmd)
	return cmd
}

// mark sets the annotation of a paused add-on, or removes it.
func mark(ctx context.Context, c client.Client, name, value string) error {
	var before ocm.ClusterManagementAddOn
	if err := c.Get(ctx, types.NamespacedName{Name: name}, &before); err != nil {
		return fmt.Errorf("read add-on %s: %w", name, err)
	}
	after, ok := before.DeepCopyObject().(*ocm.ClusterManagementAddOn)
	if !ok {
		return fmt.Errorf("add-on %s has no copy", name)
	}
	delete(after.Annotations, inventory.Paused)
	if value != "" {
		if after.Annotations == nil {
			after.Annotations = make(map[string]string)
		}
		after.Annotations[inventory.Paused] = value
	}
	return c.Patch(ctx, after, client.MergeFrom(&before))
}

func (a commands) whyCommand() *cobra.Command {
	var f hubFlags
	var format, cluster string
	cmd := &cobra.Command{
		Use:     "why ADDON --cluster CLUSTER",
		Short:   "Say what holds an add-on up on a cluster, and the way out",
		Example: "  sealift fleet why hello --cluster oslo",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cluster == "" {
				return app.UsageError("name the cluster with --cluster")
			}
			v, err := f.view(a)
			if err != nil {
				return err
			}
			why, err := v.Why(cmd.Context(), args[0], cluster)
			if err != nil || format == "json" {
				return orJSON(a, why, err)
			}
			for _, l := range why.Links {
				sign := "ok  "
				if !l.OK {
					sign = "FAIL"
				}
				fmt.Fprintf(a.Out, "%s  %s: %s\n", sign, l.Object, l.State)
			}
			fmt.Fprintln(a.Out, why.Answer)
			return nil
		},
	}
	f.add(cmd)
	app.AddOutputFlag(cmd, &format)
	cmd.Flags().StringVar(&cluster, "cluster", "", "name of the cluster")
	return cmd
}
