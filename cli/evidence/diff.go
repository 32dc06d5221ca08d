package evidence

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/builder/comparison"
	"github.com/sealift/sealift/builder/vulnerability"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/host/redact"
	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/plaintext"
)

// Diff makes the command diff.
func Diff(a *app.App) *cobra.Command { return commands{a}.diffCommand() }

type diffOptions struct {
	vulnerabilities Vulnerabilities
	base, oldBase   string
	html            string
	format          string
}

func (a commands) diffCommand() *cobra.Command {
	var o diffOptions
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Show what changed between two bundles",
		Long: `Show what changed from one bundle or package to another: add-ons, images, packages in image layers and Go modules, licenses, settings of
the Installer, options of add-ons and objects of Kubernetes. With --vulnerabilities, also which known vulnerabilities are new, and which
are gone. Settings with secrets are left out.

The command reads both archives whole, and no network. What cannot be compared is listed as unknown. Objects of charts, and of what an
install.sh makes by itself, are not among the objects.

With --html, write a page, too. It needs no other file, and the same bundles give the same page. With --fail-on, the exit code is 3 if a new
vulnerability is at least that severe, or of unknown severity.`,
		Example: `  sealift diff old.tar.gz new.tar.gz
  sealift diff old.tar.gz new.tar.gz --html changes.html
  sealift diff old.tar.gz new.tar.gz --vulnerabilities vulnerabilities.tar.gz --fail-on high
  sealift diff old.tar.gz new.tar.gz -o json | jq -r '.licenses[] | select(.was == null).what'`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return a.diff(cmd.Context(), args[0], args[1], o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.html, "html", "", "also write a page to this file")
	flags.StringVar(&o.base, "base", "", "the bundle whose files NEW leaves out, if that is not OLD")
	flags.StringVar(&o.oldBase, "old-base", "", "the bundle whose files OLD leaves out")
	o.vulnerabilities.databaseFlags(cmd)
	app.AddOutputFlag(cmd, &o.format)
	for _, name := range []string{"html", "base", "old-base"} {
		_ = cmd.MarkFlagFilename(name)
	}
	return cmd
}

// diffReport is the document of diff.
type diffReport struct {
	// Database is the database of vulnerabilities, if one was named.
	Database *databaseReport `json:"database,omitempty"`
	*comparison.Difference
}

func (a commands) diff(ctx context.Context, was, now string, o diffOptions) error {
	if err := o.vulnerabilities.Check(); err != nil {
		return err
	}
	old, err := a.open(ctx, was, o.oldBase)
	if err != nil {
		return err
	}
	defer old.Close()
	current, err := a.openAfter(ctx, now, o.base, was, old)
	if err != nil {
		return err
	}
	defer current.Close()
	options := comparison.Options{Public: publicSettings}
	var report diffReport
	if o.vulnerabilities.Database != "" {
		if options.Exceptions, _, err = o.vulnerabilities.exceptions(); err != nil {
			return err
		}
		var from *bundle.Archive
		if options.Database, from, err = o.vulnerabilities.open(ctx, a.App); err != nil {
			return err
		}
		defer from.Close()
		report.Database = &databaseReport{"sha256:" + from.Digest, options.Database.Date(), options.Database.Info}
	}
	if report.Difference, err = comparison.Between(ctx, old, current, options); err != nil {
		return err
	}
	if o.html != "" {
		if err := atomicfile.Fill(o.html, 0o644, func(w *os.File) error { return report.WritePage(w) }); err != nil {
			return err
		}
		fmt.Fprintf(a.Notes(o.format), "wrote %s\n", o.html)
	}
	if err := a.Print(o.format, report, func() error { return report.print(a.Out, time.Now()) }); err != nil {
		return err
	}
	if report.Vulnerabilities == nil {
		return nil
	}
	return o.vulnerabilities.judge(report.Vulnerabilities.Added)
}

// openAfter opens a bundle that may leave out the files of an earlier one: of that which base names, or of old.
func (a commands) openAfter(ctx context.Context, name, base, oldName string, old *bundle.Archive) (*bundle.Archive, error) {
	if base != "" {
		return a.open(ctx, name, base)
	}
	opened, err := a.open(ctx, name, "")
	if err != nil || opened.Index.Base == "" || opened.Index.Base != old.Digest {
		return opened, err
	}
	if err := opened.Close(); err != nil {
		return nil, err
	}
	return a.open(ctx, name, oldName)
}

// publicSettings leaves out secrets.
func publicSettings(settings map[string]any) map[string]any {
	kept, _ := redact.WithoutSecrets(settings, redact.New().Masks).(map[string]any)
	return kept
}

func (r diffReport) print(out io.Writer, now time.Time) error {
	if r.Database != nil {
		r.Database.print(out, now)
	}
	if r.Empty() {
		fmt.Fprintln(out, "nothing changed")
	}
	for _, section := range r.Sections() {
		if len(section.Changes) == 0 {
			continue
		}
		fmt.Fprintf(out, "\n%s:\n", strings.ToLower(section.Title[:1])+section.Title[1:])
		for _, change := range section.Changes {
			fmt.Fprintf(out, "  %s\n", change)
		}
	}
	if v := r.Vulnerabilities; v != nil {
		t := plaintext.NewTable(tabwriter.NewWriter(out, 2, 0, 2, ' ', 0))
		for _, list := range []struct {
			title    string
			findings []vulnerability.Finding
		}{{"new", v.Added}, {"gone", v.Gone}} {
			fmt.Fprintf(out, "\nvulnerabilities that are %s: %d\n", list.title, len(list.findings))
			for _, f := range list.findings {
				printFinding(t, f)
			}
			if err := t.Flush(); err != nil {
				return err
			}
		}
	}
	for n, reason := range r.Unknown {
		if n == 0 {
			fmt.Fprintln(out, "\nunknown:")
		}
		fmt.Fprintf(out, "  %s\n", reason)
	}
	return nil
}
