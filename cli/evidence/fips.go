package evidence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/builder/inventory"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/archive"
	"github.com/sealift/sealift/installer/inspect/fips"
	"github.com/sealift/sealift/internal/hostpath"
	"github.com/sealift/sealift/internal/plaintext"
)

// FIPS makes the command fips. It is not among those of nodes: reading build records takes 300 kB of a program.
func FIPS(a *app.App) *cobra.Command {
	cmd := &cobra.Command{Use: "fips", Short: "Look for what has no FIPS 140-3 module"}
	cmd.AddCommand(commands{a}.fipsVerifyCommand())
	return cmd
}

func (a commands) fipsVerifyCommand() *cobra.Command {
	var format, base string
	cmd := &cobra.Command{
		Use:   "verify [BUNDLE|URL]",
		Short: "Check that programs have a FIPS 140-3 module that is active",
		Long: `Check the Go programs of a bundle or a package: those in image layers, archives, host packages and the bundle itself. A Go program
says in its build record which module it was linked with and whether it starts in FIPS mode.

Without an argument, check that this host works in FIPS mode: its kernel, each Go program that runs, in pods too, and the encryption
of Secrets in etcd. GODEBUG in the environment of a process overrides what its program says. Run the command as root.

Programs in other languages are not judged: their cryptography comes from the libraries of their distribution. The command
changes nothing. Exit code 3 means that something has no module, or one that is not active.`,
		Example: "  sealift fips verify cluster.tar.gz\n  sealift fips verify\n  sealift fips verify -o json | jq '.findings[] | select(.approved | not)'",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				report, err := a.bundleFIPS(cmd.Context(), args[0], base)
				return a.judge(format, report, err)
			}
			if base != "" {
				return app.UsageError("--base needs a bundle to check")
			}
			report, err := fips.Look("/")
			if errors.Is(err, fs.ErrPermission) {
				err = fmt.Errorf("%w; %s", err, hostpath.WithSudo())
			}
			return a.judge(format, report, err)
		},
	}
	archive.AddBaseFlag(cmd, &base)
	app.AddOutputFlag(cmd, &format)
	return cmd
}

// judge prints a report, and returns an error with the code of a refusal if not all of it is approved.
func (a commands) judge(format string, r fips.Report, err error) error {
	if err == nil {
		err = a.Print(format, r, func() error { return a.printFIPS(r) })
	}
	if n := r.Refused(); err == nil && n > 0 {
		err = app.WithCode(app.ExitRefused, fmt.Errorf("%d of %s without an active FIPS 140-3 module; docs/fips.md says how to build with one", n, app.Counted(len(r.Findings), "finding")))
	}
	return err
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

// bundleFIPS reports on the programs of a bundle.
func (a commands) bundleFIPS(ctx context.Context, name, base string) (fips.Report, error) {
	opened, err := a.open(ctx, name, base)
	if err != nil {
		return fips.Report{}, err
	}
	defer opened.Close()
	found, err := inventory.Read(ctx, opened, inventory.Options{})
	if err != nil {
		return fips.Report{}, err
	}
	r := fips.Report{Kind: "images"}
	for _, i := range found.Images {
		place := "image " + i.Ref + " " + i.Platform
		unread := i.Unread()
		addPrograms(&r, place, i.Programs, unread)
		if len(i.Programs)+len(unread) == 0 {
			r.Others++
		}
	}
	for _, f := range found.Files {
		addPrograms(&r, "file "+f.Path, f.Programs, f.Unknown)
	}
	return r, nil
}

// addPrograms adds the programs of one place, and why others of it may be missing.
func addPrograms(r *fips.Report, place string, programs []inventory.Program, unknown []string) {
	for _, p := range programs {
		r.Findings = append(r.Findings, fips.Finding{What: place + ": " + p.Path, Found: "module " + p.FIPS.String(), Approved: p.FIPS.Active})
	}
	for _, reason := range unknown {
		r.Findings = append(r.Findings, fips.Finding{What: place, Found: "unknown: " + reason})
	}
}
