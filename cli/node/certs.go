package node

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/pki"
)

func (a commands) certsCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "certs",
		Short: "List the certificates of this node and when they end",
		Long: `List every certificate, pair of keys and kubeconfig of this node: its subject and issuer, its end, the days that are left,
and who uses it. 'sealift status' warns three months before the end.`,
		Example: "  sealift certs\n  sealift certs -o json | jq -r '.[] | select(.daysLeft != null and .daysLeft < 90).file'",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			all, err := pki.List(time.Now())
			if err != nil {
				return forRoot(err)
			}
			if format == "json" {
				return a.PrintJSON(all)
			}
			return a.printCertificates(all)
		},
	}
	app.AddOutputFlag(cmd, &format)
	return cmd
}

func (a commands) printCertificates(all []pki.Entry) error {
	t := tabwriter.NewWriter(a.Out, 2, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FILE\tKIND\tSUBJECT\tISSUER\tEND\tDAYS\tUSED BY\tPROBLEM")
	for _, e := range all {
		end, days := "-", "-"
		if e.End != nil {
			end, days = e.End.UTC().Format(time.DateOnly), strconv.Itoa(*e.Days)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.File, e.Kind, e.Subject, e.Issuer, end, days, strings.Join(e.UsedBy, ","), firstLine(e.Problem))
	}
	return t.Flush()
}
