package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/installer/inspect/cis"
	"github.com/sealift/sealift/installer/inspect/cis/xccdf"
	"github.com/sealift/sealift/internal/plaintext"
)

func (a commands) cisCommand() *cobra.Command {
	var format, edition string
	cmd := &cobra.Command{
		Use:   "cis",
		Short: "Compare this node with the CIS Kubernetes Benchmark",
		Long: `Compare this node and its cluster with every check of the CIS Kubernetes Benchmark, by number: whether it is met, the value
found, and the reason if it is not met or not applicable. Run the command as root on each node: a worker has no control plane to
compare, and may not ask the API for policies.

The Kubernetes of the node decides which edition of the benchmark it is compared with: 2.0.1 from Kubernetes 1.34 on. --benchmark chooses
another one. The report says if an edition was written for other releases.

With -o xccdf the report is a benchmark with its result in XCCDF 1.2, with -o arf a collection in ARF 1.1 that also describes the node:
programs of auditors read them. A check that nothing compares here, such as one that people decide about, is notchecked there.

The command changes nothing and needs no network. Exit code 3 means that a check is not met.`,
		Example: "  sealift preflight cis\n  sealift preflight cis -o json | jq -r '.results[] | select(.status == \"not met\") | .id + \" \" + .reason'" +
			"\n  sealift preflight cis -o xccdf >$(hostname).xccdf.xml\n  sealift preflight cis -o arf >$(hostname).arf.xml",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.compare(cmd.Context(), format, edition) },
	}
	cmd.Flags().StringVar(&edition, "benchmark", "", "edition of the benchmark, such as 1.8; default: the one for the Kubernetes of this node")
	app.AddOutputFlag(cmd, &format, "xccdf", "arf")
	return cmd
}

func (a commands) compare(ctx context.Context, format, edition string) error {
	h := cis.Host{}
	var err error
	if edition != "" {
		if h.Edition, err = cis.EditionNamed(edition); err != nil {
			return app.WithCode(app.ExitUsage, fmt.Errorf("--benchmark: %w", err))
		}
	}
	if h.Name, err = host.Name(); err != nil {
		return err
	}
	if h.Kubernetes, err = kubeletVersion(ctx); err != nil {
		return err
	}
	if _, err := os.Stat(kubeadm.APIServerManifest); err == nil {
		if h.API, err = cluster.Client(kubeadm.AdminKubeconfig); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	report, err := cis.Look(ctx, h)
	if err != nil {
		return err
	}
	err = a.writeReport(format, report, xccdf.Options{Time: time.Now(), Program: app.CurrentVersion().Version})
	if n := report.Count(cis.NotMet); err == nil && n > 0 {
		err = app.WithCode(app.ExitRefused, fmt.Errorf("%s of the %s not met on node %s", app.Counted(n, "check"), report.Benchmark, report.Node))
	}
	return err
}

// kubeletVersion asks the kubelet program of this host for its version, such as 1.37.2.
func kubeletVersion(ctx context.Context) (string, error) {
	var said bytes.Buffer
	if err := command.Run(ctx, &said, "kubelet", "--version"); err != nil {
		return "", fmt.Errorf("the version of the kubelet, which chooses the edition of the benchmark: %w; run the command on a node of a cluster", err)
	}
	for line := range strings.Lines(said.String()) {
		if version, ok := strings.CutPrefix(strings.TrimSpace(line), "Kubernetes v"); ok {
			return version, nil
		}
	}
	return "", fmt.Errorf("kubelet --version printed no version: %s", strings.TrimSpace(said.String()))
}

func (a commands) writeReport(format string, r cis.Report, o xccdf.Options) error {
	switch format {
	case "xccdf":
		return xccdf.XCCDF(a.Out, r, o)
	case "arf":
		return xccdf.ARF(a.Out, r, o)
	}
	return a.Print(format, r, func() error { return a.printReport(r) })
}

func (a commands) printReport(r cis.Report) error {
	t := plaintext.NewTable(tabwriter.NewWriter(a.Out, 2, 0, 2, ' ', 0))
	t.Println("CHECK\tSTATUS\tWANTED\tFOUND\tREASON")
	for _, one := range r.Results {
		t.Printf("%s\t%s\t%s\t%s\t%s\n", one.ID, one.Status, one.Title, strings.ReplaceAll(one.Found, "\n", " "), one.Reason)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	benchmark := r.Benchmark
	if r.Note != "" {
		benchmark += " (" + r.Note + ")"
	}
	_, err := fmt.Fprintf(a.Out, "\n%s, node %s: %d met, %d not met, %d not applicable\n", benchmark, r.Node, r.Count(cis.Met), r.Count(cis.NotMet), r.Count(cis.NotApplicable))
	return err
}
