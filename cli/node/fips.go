package node

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/inspect/fips"
	"github.com/sealift/sealift/internal/plaintext"
)

// ProgramsOf reports which programs of a bundle or a package, at a path or URL, have no module for FIPS 140-3.
type ProgramsOf func(ctx context.Context, name string) (fips.Report, error)

// FIPS makes the command fips. It is not among those of nodes: reading build records takes 300 kB of a program.
func FIPS(a *app.App, programs ProgramsOf) *cobra.Command {
	cmd := &cobra.Command{Use: "fips", Short: "Look for what has no FIPS 140-3 module"}
	cmd.AddCommand(onHost(a, commands{App: a}.fipsVerifyCommand(programs))...)
	return cmd
}

func (a commands) fipsVerifyCommand(programs ProgramsOf) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "verify [BUNDLE|URL]",
		Short: "Check that programs have a FIPS 140-3 module that is active",
		Long: `Check that this host works in FIPS mode: its kernel, each Go program that runs, in pods too, and the encryption of Secrets in etcd.
A Go program says in its build record which module it was linked with and whether it starts in FIPS mode; GODEBUG in the
environment of its process overrides that. Run the command as root.`,
		Example: "  sealift fips verify cluster.tar.gz\n  sealift fips verify\n  sealift fips verify -o json | jq '.findings[] | select(.approved | not)'",
		Args:    cobra.MaximumNArgs(1),
	}
	cmd.Long += `

With a bundle or a package, check its Go programs instead: those in image layers, archives, host packages and the bundle itself.

Programs in other languages are not judged: their cryptography comes from the libraries of their distribution. The command
changes nothing. Exit code 3 means that something has no module, or one that is not active.`
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		report, err := fips.Report{}, error(nil)
		if len(args) == 0 {
			report, err = fips.Look("/")
			err = forRoot(err)
		} else {
			report, err = programs(cmd.Context(), args[0])
		}
		if err != nil {
			return err
		}
		err = a.Print(format, report, func() error { return a.printFIPS(report) })
		if n := report.Refused(); err == nil && n > 0 {
			err = app.WithCode(app.ExitRefused, fmt.Errorf("%d of %s without an active FIPS 140-3 module; docs/fips.md says how to build with one", n, app.Counted(len(report.Findings), "finding")))
		}
		return err
	}
	app.AddOutputFlag(cmd, &format)
	return cmd
}

func (a commands) printFIPS(r fips.Report) error {
	t := plaintext.NewTable(tabwriter.NewWriter(a.Out, 2, 0, 2, ' ', 0))
	t.Println("RESULT\tWHAT\tFOUND")
	for _, f := range r.Findings {
		result := "pass"
		if !f.Approved {
			result = "fail"
		}
		t.Printf("%s\t%s\t%s\n", result, f.What, f.Found)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.Out, "\n%s without a Go program, which are not judged: %d\n", r.Kind, r.Others)
	return err
}
