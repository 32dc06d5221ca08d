package evidence

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/builder/inventory"
	"github.com/sealift/sealift/builder/vulnerability"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/verdict"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/archive"
	"github.com/sealift/sealift/internal/plaintext"
	"github.com/sealift/sealift/internal/sha256hex"
	"github.com/sealift/sealift/store"
)

// Vulnerabilities are the flags by which a command looks for vulnerabilities in a bundle.
type Vulnerabilities struct {
	Database string // path or URL; the command looks for nothing without it
	keys     []string
	vex      []string
	failOn   string
	since    string
	// Base is the earlier bundle whose files this one leaves out.
	Base string
}

// Flags adds the flags to a command.
func (v *Vulnerabilities) Flags(cmd *cobra.Command) {
	v.databaseFlags(cmd)
	cmd.Flags().StringVar(&v.since, "since", "", "only vulnerabilities that this earlier bundle does not have")
	cmd.Flags().StringVar(&v.Base, "base", "", "the earlier bundle whose files this one leaves out")
	for _, name := range []string{"since", "base"} {
		_ = cmd.MarkFlagFilename(name)
	}
}

// databaseFlags adds the flags for the database and for judging its findings.
func (v *Vulnerabilities) databaseFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&v.Database, "vulnerabilities", "", "look for known vulnerabilities in this database, made by 'sealift vulndb pull'")
	flags.StringArrayVar(&v.keys, "vulnerabilities-key", nil, "public key that the database must be signed with; may be repeated")
	flags.StringArrayVar(&v.vex, "vex", nil, "OpenVEX document with vulnerabilities that do not matter here; may be repeated")
	flags.Var(app.NewChoice(&v.failOn, verdict.Levels()), "fail-on", "exit with code 3 at a vulnerability of at least this severity, or of unknown severity")
	for _, name := range []string{"vulnerabilities", "vex"} {
		_ = cmd.MarkFlagFilename(name)
	}
	_ = cmd.MarkFlagFilename("vulnerabilities-key", "pub")
	_ = cmd.RegisterFlagCompletionFunc("fail-on", cobra.FixedCompletions(verdict.Levels(), cobra.ShellCompDirectiveNoFileComp))
}

// Check returns an error of usage if flags are set that need a database, without one.
func (v *Vulnerabilities) Check() error {
	if v.Database != "" {
		return nil
	}
	for flag, set := range map[string]bool{"vulnerabilities-key": len(v.keys) > 0, "vex": len(v.vex) > 0, "fail-on": v.failOn != "", "since": v.since != ""} {
		if set {
			return app.UsageError("--%s needs --vulnerabilities, a database that 'sealift vulndb pull' has made", flag)
		}
	}
	return nil
}

// vulnerabilityReport is the document of inspect --vulnerabilities.
type vulnerabilityReport struct {
	Index    string         `json:"index"` // digest of the bundle's
	Database databaseReport `json:"database"`
	// Since is the digest of the index of the earlier bundle, if one was named. Findings are then only those that it does not have.
	Since string `json:"since,omitempty"`
	// Gone counts vulnerabilities of the earlier bundle that this one does not have.
	Gone *int `json:"gone,omitempty"`
	vulnerability.Report
}

type databaseReport struct {
	Index string    `json:"index"` // digest
	Date  time.Time `json:"date"`  // of the oldest source
	vulnerability.Info
}

// Run looks for vulnerabilities in a bundle and prints them. It returns an error with the code of a refusal if the policy is not met.
func (v *Vulnerabilities) Run(ctx context.Context, a *app.App, name, format string) error {
	c := commands{a}
	exceptions, _, err := v.exceptions()
	if err != nil {
		return err
	}
	database, from, err := v.open(ctx, a)
	if err != nil {
		return err
	}
	defer from.Close()
	report := vulnerabilityReport{Database: databaseReport{"sha256:" + from.Digest, database.Date(), database.Info}}
	current, index, err := c.match(ctx, database, exceptions, name, v.Base)
	if err != nil {
		return err
	}
	report.Index, report.Report = index, *current
	if v.since != "" {
		old, index, err := c.match(ctx, database, exceptions, v.since, "")
		if err != nil {
			return fmt.Errorf("--since: %w", err)
		}
		added, gone := current.Since(old)
		report.Since, report.Findings, report.Gone = index, added, &gone
	}
	if err := a.Print(format, report, func() error { return report.print(a.Out, time.Now()) }); err != nil {
		return err
	}
	return v.judge(report.Findings)
}

// open opens the database.
func (v *Vulnerabilities) open(ctx context.Context, a *app.App) (*vulnerability.Database, *bundle.Archive, error) {
	keys, err := app.PublicKeys(v.keys)
	if err != nil {
		return nil, nil, err
	}
	from, err := archive.Open(ctx, store.Opener{Log: a.Log, CAs: a.CAs}, v.Database, keys...)
	if err != nil {
		return nil, nil, fmt.Errorf("--vulnerabilities: %w", err)
	}
	if len(keys) > 0 {
		_, err = from.VerifySignature(keys...)
	}
	var database *vulnerability.Database
	if err == nil {
		database, err = vulnerability.Open(from)
	}
	if err != nil {
		_ = from.Close()
		return nil, nil, fmt.Errorf("--vulnerabilities %s: %w", v.Database, err)
	}
	return database, from, nil
}

// maxVEX is the largest OpenVEX document, in bytes.
const maxVEX = 64 << 20

// exceptions reads the OpenVEX documents, and returns their digests, too.
func (v *Vulnerabilities) exceptions() (all *vulnerability.Exceptions, digests []string, err error) {
	all = new(vulnerability.Exceptions)
	for _, name := range v.vex {
		f, err := os.Open(name)
		if err != nil {
			return nil, nil, err
		}
		data, err := io.ReadAll(io.LimitReader(f, maxVEX))
		_ = f.Close()
		if err == nil {
			err = all.Add(data)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("--vex %s: %w", name, err)
		}
		digests = append(digests, "sha256:"+sha256hex.Of(data))
	}
	return all, digests, nil
}

// match looks for vulnerabilities in a bundle, and returns the digest of its index, too.
func (a commands) match(ctx context.Context, database *vulnerability.Database, exceptions *vulnerability.Exceptions, name, base string) (*vulnerability.Report, string, error) {
	listed, digest, err := a.list(ctx, name, base)
	if err != nil {
		return nil, "", err
	}
	report, err := database.Match(ctx, listed, exceptions)
	return report, digest, err
}

// list reads what is in a bundle, and returns the digest of its index, too.
func (a commands) list(ctx context.Context, name, base string) (*inventory.Inventory, string, error) {
	opened, err := a.open(ctx, name, base)
	if err != nil {
		return nil, "", err
	}
	defer opened.Close()
	listed, err := inventory.Read(ctx, opened, inventory.Options{})
	return listed, "sha256:" + opened.Digest, err
}

// judge returns an error if a finding is at least as severe as the policy allows.
func (v *Vulnerabilities) judge(findings []vulnerability.Finding) error {
	if v.failOn == "" {
		return nil
	}
	return refuse(count(findings), verdict.Level(v.failOn))
}

// refuse returns an error with the code of a refusal if a level does not allow all findings.
func refuse(counts verdict.Counts, level verdict.Level) error {
	n := counts.Failing(level)
	if n == 0 {
		return nil
	}
	noun := "vulnerabilities"
	if n == 1 {
		noun = "vulnerability"
	}
	return app.WithCode(app.ExitRefused, fmt.Errorf("%d %s %s; update what has them, or except them with --vex", n, noun, level))
}

// count counts findings by severity.
func count(findings []vulnerability.Finding) (c verdict.Counts) {
	open := map[vulnerability.Severity]*int{vulnerability.Critical: &c.Critical, vulnerability.High: &c.High, vulnerability.Medium: &c.Medium,
		vulnerability.Low: &c.Low, vulnerability.Unknown: &c.Unknown}
	for _, f := range findings {
		if f.Open() {
			*open[f.Severity]++
		} else {
			c.Excepted++
		}
	}
	return c
}

// print says how old a database is, and what it has.
func (r databaseReport) print(out io.Writer, now time.Time) {
	total := 0
	for _, s := range r.Sources {
		total += s.Records
	}
	const day = 24 * time.Hour
	age := app.Counted(int(now.Sub(r.Date)/day), "day") + " old"
	if r.Date.Sub(now) > day {
		age = "after today: the clock of this machine is wrong, or that date"
	}
	fmt.Fprintf(out, "database of %s, %s: %s, %s\n", r.Date.Format(time.DateOnly), age, app.Counted(total, "record"), ecosystems(r.Ecosystems))
}

func (r vulnerabilityReport) print(out io.Writer, now time.Time) error {
	r.Database.print(out, now)
	t := plaintext.NewTable(tabwriter.NewWriter(out, 2, 0, 2, ' ', 0))
	for _, f := range r.Findings {
		printFinding(t, f)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(r.Unknown) > 0 {
		fmt.Fprintln(out, "\nunknown:")
		for _, reason := range r.Unknown {
			fmt.Fprintf(out, "  %s\n", reason)
		}
	}
	what := "vulnerabilities"
	if r.Since != "" {
		what = "vulnerabilities that the earlier bundle does not have"
	}
	fmt.Fprintf(out, "\n%s: %s\n", what, severities(count(r.Findings)))
	if r.Gone != nil {
		fmt.Fprintf(out, "of the earlier bundle's, %d are gone\n", *r.Gone)
	}
	return nil
}

// severities describes how many findings there are of each severity.
func severities(c verdict.Counts) string {
	return fmt.Sprintf("%d critical, %d high, %d medium, %d low, %d of unknown severity; %d excepted", c.Critical, c.High, c.Medium, c.Low, c.Unknown, c.Excepted)
}

// ecosystems lists the names without releases.
func ecosystems(counts map[string]int) string {
	names := make(map[string]bool)
	for name := range counts {
		family, _, _ := strings.Cut(name, ":")
		names[family] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}

func printFinding(t plaintext.Table, f vulnerability.Finding) {
	fix := "no fix is known"
	if f.Fixed != "" {
		fix = "fixed in " + f.Fixed
	}
	t.Printf("\n%s\t%s\t%s %s\t%s\n", f.Severity, strings.Join(append([]string{f.ID}, f.Aliases...), " "), f.Name, f.Version, fix)
	if f.Summary != "" {
		t.Printf("  %s\n", f.Summary)
	}
	for _, p := range f.Places {
		where := p.String()
		if p.Exception != nil {
			where += " (" + p.Exception.Status + ": " + p.Exception.Reason + ")"
		}
		t.Printf("  %s\n", where)
	}
}
