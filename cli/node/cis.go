package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/inspect/cis"
	"github.com/sealift/sealift/internal/plaintext"
)

func (a commands) cisCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "cis",
		Short: "Compare this node with the CIS Kubernetes Benchmark",
		Long: `Compare this node and its cluster with every check of the ` + cis.Benchmark + `, by number: whether it is met, the value
found, and the reason if it is not met or not applicable. Run the command as root on each node: a worker has no control plane to
compare, and may not ask the API for policies.

The command changes nothing and needs no network. Exit code 3 means that a check is not met.`,
		Example: "  sealift preflight cis\n  sealift preflight cis -o json | jq -r '.results[] | select(.status == \"not met\") | .id + \" \" + .reason'",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.compare(cmd.Context(), format) },
	}
	app.AddOutputFlag(cmd, &format)
	return cmd
}

func (a commands) compare(ctx context.Context, format string) error {
	name, err := host.Name()
	if err != nil {
		return err
	}
	h := cis.Host{Name: name}
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
	err = a.Print(format, report, func() error { return a.printReport(report) })
	if n := report.Count(cis.NotMet); err == nil && n > 0 {
		err = app.WithCode(app.ExitRefused, fmt.Errorf("%s of the %s not met on node %s", app.Counted(n, "check"), report.Benchmark, name))
	}
	return err
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
	_, err := fmt.Fprintf(a.Out, "\n%s, node %s: %d met, %d not met, %d not applicable\n", r.Benchmark, r.Node, r.Count(cis.Met), r.Count(cis.NotMet), r.Count(cis.NotApplicable))
	return err
}
