package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/change"
	"github.com/sealift/sealift/cli/kubeconfig"
	"github.com/sealift/sealift/fleet/agent"
	"github.com/sealift/sealift/fleet/carry"
	"github.com/sealift/sealift/fleet/ledger"
	"github.com/sealift/sealift/fleet/parcel"
	"github.com/sealift/sealift/fleet/seal"
	"github.com/sealift/sealift/kube"
)

// defaultContent is where a carried cluster keeps what its hub sent.
const defaultContent = "/var/lib/sealift/fleet"

// refusedCode gives a refusal the exit code of refusals.
func refusedCode(err error) error {
	if _, ok := errors.AsType[*seal.Refusal](err); ok {
		return app.WithCode(app.ExitRefused, err)
	}
	return err
}

// hub connects to the hub for packing and taking.
func (f *hubFlags) hub(a commands) (carry.Hub, error) {
	cfg, c, err := f.connect()
	if err != nil {
		return carry.Hub{}, err
	}
	cluster, err := kube.Connect(cfg, a.Log)
	if err != nil {
		return carry.Hub{}, err
	}
	l, err := ledger.Open(cluster, f.namespace)
	return carry.Hub{Client: c, Ledger: l, Now: time.Now}, err
}

func (a commands) packCommand() *cobra.Command {
	var f hubFlags
	var p carry.Pack
	var flags change.Flags
	var from, since string
	var signers, schemes, secrets []string
	cmd := &cobra.Command{
		Use:   "pack CLUSTER --out FILE|FOLDER",
		Short: "Pack a parcel for a cluster without a connection",
		Long: `Pack a parcel for a cluster without a connection: all of its works, its Helm releases with their charts, and with --store
the packages that carry the images of both. The parcel is a bundle that is signed with the key of the hub. In a folder, it is called CLUSTER.parcel.

With --since, the parcel leaves out the files that the cluster has according to its report. With --require-signed, each
package must be signed with one of these keys: people who can write to the store then cannot decide what the hub signs.
--plan says what would be in it, and changes nothing.`,
		Example: "  sealift fleet pack ship-7 --out /media/usb --store /srv/packages\n  sealift fleet pack ship-7 --out /media/usb --store /srv/packages --since ship-7.report",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.Cluster = args[0]
			if p.Out == "" {
				return app.UsageError("name the file or the folder to write with --out")
			}
			p.Out = agent.Place(p.Out, p.Cluster, parcel.Suffix)
			var err error
			if p.Store, err = a.packages(from, signers); err != nil {
				return err
			}
			h, err := f.hub(a)
			if err != nil {
				return err
			}
			h.ChartSchemes, h.SecretNamespaces = schemes, secrets
			if since != "" {
				if p.Since, err = parcel.LoadReport(since); err != nil {
					return err
				}
			}
			p.Plan = flags.Plan
			packed, err := h.Pack(cmd.Context(), p)
			if err != nil {
				return refusedCode(err)
			}
			return a.Print(flags.Format, packed, func() error { return a.printPacked(packed) })
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&p.Out, "out", "", "file or folder to write to")
	cmd.Flags().StringVar(&from, "store", "", "store with the packages that carry the images; without one, the parcel has works only")
	cmd.Flags().StringVar(&since, "since", "", "report of the cluster; what it has is left out")
	app.AddSignersFlag(cmd, &signers)
	cmd.Flags().StringArrayVar(&schemes, "chart-scheme", nil, "scheme that repoURL of a chart may have beside https and oci: http or file; repeat it")
	cmd.Flags().StringArrayVar(&secrets, "secret-namespace", nil, "namespace whose Secrets every HelmChartProxy may name; repeat it")
	cmd.Flags().StringVar(&p.Spool, "spool", "", "folder for large files while they are packed (default: that of temporary files)")
	flags.AddPlan(cmd, "what would be packed")
	_ = cmd.MarkFlagFilename("since")
	return cmd
}

func (a commands) printPacked(p carry.Packed) error {
	verb := fmt.Sprintf("packed parcel %d into %s", p.Sequence, p.File)
	if p.File == "" {
		verb = "would pack a parcel"
	}
	fmt.Fprintf(a.Out, "%s: %d works, %s%d packages, %d bytes\n", verb, len(p.Works), releases(p.Releases), len(p.Packages), p.Bytes)
	if p.Left > 0 {
		fmt.Fprintf(a.Out, "left out: %d bytes that the cluster has\n", p.Left)
	}
	if len(p.Deleted) > 0 {
		fmt.Fprintf(a.Out, "the cluster is to lose: %s\n", strings.Join(p.Deleted, ", "))
	}
	if len(p.Uncarried) > 0 {
		fmt.Fprintf(a.Out, "not packed, because no --store is named: %s\n", strings.Join(p.Uncarried, ", "))
	}
	for _, unknown := range p.Unknown {
		fmt.Fprintf(a.Out, "images unknown: %s\n", unknown)
	}
	for _, unusable := range p.Unusable {
		fmt.Fprintf(a.Out, "not usable, and not needed: %s\n", unusable)
	}
	return nil
}

// releases counts releases, if there are any.
func releases(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("%d releases, ", len(names))
}

func (a commands) applyCommand() *cobra.Command {
	var file, local, context string
	var c agent.Carried
	var flags change.Flags
	var loaded bool
	cmd := &cobra.Command{
		Use:   "apply [FILE|FOLDER] --hub-kubeconfig FILE",
		Short: "Apply a parcel on a cluster without a connection, and write a report",
		Long: `Apply a parcel on a cluster without a connection to its hub, and write a report. In a folder, the parcel is called
CLUSTER.parcel, and the report CLUSTER.report. The file of --hub-kubeconfig says which cluster this is and which key of the
hub it trusts; nobody connects to the hub.

Every node that is Ready gets the images of the parcel before its works are applied. Run the command on a control plane, as
root: the other nodes fetch from it what they lack. On a cluster that Sealift did not install, bring the images to the nodes
yourself, and say so with --images-loaded.

Every byte of the parcel is checked before anything changes. A parcel that was applied before, an older one, and one of
another cluster are refused. If the command is killed, run it again.

Without a parcel, the command looks at what was applied before and writes a new report.`,
		Example: "  sealift fleet apply /media/usb --hub-kubeconfig ship-7.kubeconfig\n  sealift fleet apply --hub-kubeconfig ship-7.kubeconfig --report /media/usb",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := member(file)
			if err != nil {
				return err
			}
			c.Cluster, c.Server, c.Keys, c.Key, c.Log = m.Cluster, m.Server, m.HubKeys, m.Key, a.log()
			from := ""
			if len(args) == 1 {
				from = agent.Place(args[0], m.Cluster, parcel.Suffix)
			}
			if c.Report == "" {
				c.Report = filepath.Dir(cmp.Or(from, file))
			}
			c.Report = agent.Place(c.Report, m.Cluster, parcel.ReportSuffix)
			if c.Local, err = kubeconfig.Load(local, context); err != nil {
				return err
			}
			if !loaded {
				c.Images = nodes{c.Local, a.Err}
			}
			applied, err := agent.Apply(cmd.Context(), c, from, flags.Plan)
			if err != nil {
				return refusedCode(err)
			}
			return a.Print(flags.Format, applied, func() error { return a.printApplied(applied, flags.Plan) })
		},
	}
	cmd.Flags().StringVar(&file, "hub-kubeconfig", "", "kubeconfig file that 'sealift fleet join' wrote")
	cmd.Flags().StringVar(&local, "kubeconfig", "", "kubeconfig file of this cluster (default: that of kubectl)")
	cmd.Flags().StringVar(&context, "context", "", "context of the kubeconfig")
	cmd.Flags().StringVar(&c.Content, "content", defaultContent, "folder that keeps what the hub sent")
	cmd.Flags().StringVar(&c.Report, "report", "", "file or folder for the report (default: beside the parcel)")
	cmd.Flags().DurationVar(&c.MaxAge, "max-age", agent.DefaultMaxAge, "how old the parcel may be")
	cmd.Flags().DurationVar(&c.Wait, "wait", 5*time.Minute, "how long to wait until all works are rolled out")
	cmd.Flags().BoolVar(&loaded, "images-loaded", false, "the nodes have the images of the parcel already")
	flags.AddPlan(cmd, "what the parcel would do")
	_ = cmd.MarkFlagFilename("hub-kubeconfig")
	_ = cmd.MarkFlagFilename("kubeconfig")
	return cmd
}

func (a commands) printApplied(out agent.Applied, plan bool) error {
	verb := "applied"
	switch {
	case plan:
		verb = "would apply"
	case out.Parcel == 0:
		verb = "looked at"
	}
	what := "what was applied before"
	if out.Parcel != 0 {
		what = fmt.Sprintf("parcel %d", out.Parcel)
	}
	fmt.Fprintf(a.Out, "%s %s: %d works, %s%d removed, %d bytes of content brought, %d were there\n", verb, what, len(out.Works), releases(out.Releases), len(out.Removed), out.Content, out.Had)
	if len(out.Waiting) > 0 {
		fmt.Fprintf(a.Out, "not rolled out yet: %s\n", strings.Join(out.Waiting, ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(out.Stuck)) {
		fmt.Fprintf(a.Out, "not removed: %s: %s; apply the parcel again when that is repaired, or a later one\n", name, out.Stuck[name])
	}
	if out.Report != "" {
		fmt.Fprintf(a.Out, "the report is %s; on the hub, run: sealift fleet take %s\n", out.Report, filepath.Base(out.Report))
	}
	return nil
}

func (a commands) takeCommand() *cobra.Command {
	var f hubFlags
	var flags change.Flags
	cmd := &cobra.Command{
		Use:   "take REPORT",
		Short: "Bring the report of a cluster without a connection into the rollout",
		Long: `Bring the report of a cluster without a connection into the rollout. The report must be signed with the key that the
cluster got when it joined, and newer than the last one that was taken.`,
		Example: "  sealift fleet take /media/usb/ship-7.report",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := parcel.LoadReport(args[0])
			if err != nil {
				return err
			}
			h, err := f.hub(a)
			if err != nil {
				return err
			}
			taken, err := h.Take(cmd.Context(), text, flags.Plan)
			if err != nil {
				return refusedCode(err)
			}
			return a.Print(flags.Format, taken, func() error { return a.printTaken(taken, flags.Plan) })
		},
	}
	f.add(cmd)
	flags.AddPlan(cmd, "what the report would change")
	return cmd
}

func (a commands) printTaken(out carry.Taken, plan bool) error {
	verb := "took"
	if plan {
		verb = "would take"
	}
	fmt.Fprintf(a.Out, "%s report %d of cluster %s, of %s: %d works, %s%d gone\n", verb, out.Report, out.Cluster, out.Time.Format(time.RFC3339), len(out.Works), releases(out.Releases),
		len(out.Gone))
	if len(out.Behind) > 0 {
		fmt.Fprintf(a.Out, "changed on the hub since the parcel: %s; pack again\n", strings.Join(out.Behind, ", "))
	}
	if out.WentBack {
		fmt.Fprintf(a.Out, "the cluster has seen later numbers than this hub has used: the hub was restored from a backup; see condition Verified of the ManagedCluster\n")
	}
	return nil
}
