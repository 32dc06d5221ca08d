package evidence

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/builder/vulnerability"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/bundle/verdict"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/archive"
)

// Verdict makes the command verdict.
func Verdict(a *app.App) *cobra.Command { return commands{a}.verdictCommand() }

type verdictOptions struct {
	vulnerabilities Vulnerabilities
	key             string
	out             string
	verify          []string
	format          string
}

func (a commands) verdictCommand() *cobra.Command {
	var o verdictOptions
	cmd := &cobra.Command{
		Use:   "verdict BUNDLE|URL --vulnerabilities DB --fail-on SEVERITY --key KEY",
		Short: "Write a signed verdict about the vulnerabilities of a bundle, for nodes",
		Long: `Look for known vulnerabilities in a bundle as 'sealift inspect --vulnerabilities' does, and write whether the policy of
--fail-on is met, beside the bundle:

  NAME.verdict.json      the digest of the bundle's index, the database and its age, the policy, counts, and what failed
  NAME.verdict.json.sig  the signature, which 'cosign verify-blob' checks, too

For a folder, the files are verdict.json and verdict.json.sig in it. Carry them with the bundle: a node whose
/etc/sealift/vulnerabilities.yaml demands a verdict takes no bundle without one. A verdict that failed is written, too.

The evidence of a bundle stays the same for ever; a verdict ages with its database. Make a new one when there is a newer database.

With --verify-with, check that a verdict is about the bundle, is signed, and what it says; nothing is written.

Exit codes: 0 the policy is met, 1 failure, 2 wrong usage, 3 the policy is not met.`,
		Example: `  sealift verdict cluster.tar.gz --vulnerabilities vulnerabilities.tar.gz --fail-on high --key security.key
  sealift verdict cluster.tar.gz --vulnerabilities vulnerabilities.tar.gz --vulnerabilities-key site.pub --vex ours.vex.json --fail-on any --key security.key
  sealift verdict update.tar.gz --base cluster.tar.gz --vulnerabilities vulnerabilities.tar.gz --fail-on high --key security.key
  sealift verdict https://store.example.com/cluster.tar.gz --vulnerabilities vulnerabilities.tar.gz --fail-on high --key security.key --out cluster.verdict.json
  sealift verdict cluster.tar.gz --verify-with security.pub -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.verdict(cmd.Context(), args[0], o) },
	}
	flags := cmd.Flags()
	o.vulnerabilities.databaseFlags(cmd)
	archive.AddBaseFlag(cmd, &o.vulnerabilities.Base)
	flags.StringVar(&o.key, "key", "", "private key that signs the verdict")
	flags.StringVar(&o.out, "out", "", "the verdict to write or to check; the default lies beside the bundle")
	flags.StringArrayVar(&o.verify, "verify-with", nil, "check the verdict against this public key instead of writing it; may be repeated")
	app.AddOutputFlag(cmd, &o.format)
	for _, name := range []string{"key", "out"} {
		_ = cmd.MarkFlagFilename(name)
	}
	_ = cmd.MarkFlagFilename("verify-with", "pub")
	for _, name := range []string{"key", "vulnerabilities", "fail-on"} {
		cmd.MarkFlagsMutuallyExclusive(name, "verify-with")
	}
	return cmd
}

func (a commands) verdict(ctx context.Context, name string, o verdictOptions) error {
	if o.out == "" {
		if strings.Contains(name, "://") {
			return app.UsageError("--out is missing: the verdict about a URL is a file of this machine")
		}
		o.out = bundle.VerdictFile(name)
	}
	if len(o.verify) > 0 {
		return a.verifyVerdict(ctx, name, o)
	}
	for flag, value := range map[string]string{"vulnerabilities": o.vulnerabilities.Database, "fail-on": o.vulnerabilities.failOn, "key": o.key} {
		if value == "" {
			return app.UsageError("--%s is missing; see 'sealift verdict --help'", flag)
		}
	}
	key, err := a.SigningKey(o.key)
	if err != nil {
		return err
	}
	public, err := key.Public()
	if err != nil {
		return err
	}
	v, digest, err := a.decide(ctx, name, o.vulnerabilities)
	if err != nil {
		return err
	}
	signed, err := v.Sign(key)
	if err != nil {
		return err
	}
	if err := signed.Write(o.out); err != nil {
		return fmt.Errorf("write the verdict: %w", err)
	}
	fmt.Fprintf(a.Notes(o.format), "wrote %s\n", o.out)
	return a.readVerdict(signed, digest, o.format, public)
}

// decide looks for vulnerabilities in a bundle, and returns the verdict about it and the digest of its index, in hex.
func (a commands) decide(ctx context.Context, name string, o Vulnerabilities) (v verdict.Verdict, digest string, err error) {
	exceptions, documents, err := o.exceptions()
	if err != nil {
		return v, "", err
	}
	database, from, err := o.open(ctx, a.App)
	if err != nil {
		return v, "", err
	}
	defer from.Close()
	v.Database = verdict.Database{Index: "sha256:" + from.Digest, Date: database.Date()}
	if len(o.keys) > 0 {
		keys, err := app.PublicKeys(o.keys)
		if err != nil {
			return v, "", err
		}
		trust, err := from.VerifySignature(keys...)
		if err != nil {
			return v, "", err
		}
		v.Database.Signer = trust.Signer
	}
	report, index, err := a.match(ctx, database, exceptions, name, o.Base)
	if err != nil {
		return v, "", err
	}
	v.Index, v.Made = index, time.Now().UTC().Truncate(time.Second)
	v.Policy = verdict.Policy{FailOn: verdict.Level(o.failOn), VEX: documents}
	v.Counts, v.Unknown = count(report.Findings), report.Unknown
	v.Passed = v.Counts.Failing(v.Policy.FailOn) == 0
	for _, f := range report.Findings {
		if count([]vulnerability.Finding{f}).Failing(v.Policy.FailOn) > 0 {
			v.Failed = append(v.Failed, verdict.Finding{ID: f.ID, Severity: f.Severity.String(), Name: f.Name, Version: f.Version, Fixed: f.Fixed})
		}
	}
	return v, strings.TrimPrefix(index, "sha256:"), nil
}

func (a commands) verifyVerdict(ctx context.Context, name string, o verdictOptions) error {
	keys, err := app.PublicKeys(o.verify)
	if err != nil {
		return err
	}
	opened, err := a.open(ctx, name, "")
	if err != nil {
		return err
	}
	defer opened.Close()
	signed, err := verdict.Load(o.out)
	if err != nil {
		return err
	}
	return a.readVerdict(signed, opened.Digest, o.format, keys...)
}

// readVerdict prints a signed verdict. The error of one that failed has the code of a refusal.
func (a commands) readVerdict(signed verdict.Signed, digest, format string, keys ...signature.PublicKey) error {
	v, err := signed.Verify(digest, keys...)
	if err != nil {
		return err
	}
	if err := a.Print(format, v, func() error { return printVerdict(a.Out, *v) }); err != nil {
		return err
	}
	return refuse(v.Counts, v.Policy.FailOn)
}

func printVerdict(out io.Writer, v verdict.Verdict) error {
	word := "passed"
	if !v.Passed {
		word = "failed"
	}
	fmt.Fprintf(out, "index %s\n%s: no vulnerabilities %s are allowed\n", v.Index, word, v.Policy.FailOn)
	fmt.Fprintf(out, "made at %s, by a database of %s\n", v.Made.Format(time.RFC3339), v.Database.Date.Format(time.DateOnly))
	fmt.Fprintf(out, "vulnerabilities: %s; %s that could not be judged\n", severities(v.Counts), app.Counted(len(v.Unknown), "part"))
	for _, f := range v.Failed {
		fix := "no fix is known"
		if f.Fixed != "" {
			fix = "fixed in " + f.Fixed
		}
		if _, err := fmt.Fprintf(out, "  %s  %s  %s %s  %s\n", f.Severity, f.ID, f.Name, f.Version, fix); err != nil {
			return err
		}
	}
	return nil
}
