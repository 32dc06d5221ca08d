// Package evidence is the commands that say what is in a bundle, and what is vulnerable in it.
package evidence

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/builder/evidence"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/archive"
	"github.com/sealift/sealift/internal/plaintext"
	"github.com/sealift/sealift/store"
)

// commands makes and runs the commands of this package.
type commands struct{ *app.App }

// Evidence makes the command evidence.
func Evidence(a *app.App) *cobra.Command { return commands{a}.evidenceCommand() }

type evidenceOptions struct {
	key       string
	unsigned  bool
	cyclonedx bool
	out       string
	base      string
	since     string
	verify    []string
	format    string
}

func (a commands) evidenceCommand() *cobra.Command {
	var o evidenceOptions
	cmd := &cobra.Command{
		Use:   "evidence BUNDLE|URL",
		Short: "Write what is in a bundle, down to packages in image layers",
		Long: `Write evidence of what a bundle or a package contains, beside it:

  NAME.spdx.json          bill of materials, SPDX 2.3
  NAME.cdx.json           the same in CycloneDX 1.6, with --cyclonedx
  NAME.licenses.tar.gz    the texts of licenses and notices, each once, and licenses.json: which component has which
  NAME.difference.json    what changed since the bundle of --since, as 'sealift diff' shows it, and NAME.difference.html, a page of it
  NAME.evidence.json      the digest of the bundle's index, and those of the documents
  NAME.evidence.json.sig  the signature of that statement

The bill of materials lists the packages of Debian, Alpine and the RHEL family inside of image layers, as their databases have them,
and the modules of every Go program in layers, archives, host packages and the bundle itself. Files that a higher
layer deletes or replaces do not count. An image that has neither is unknown, and so is one with content that cannot be read:
the statement says why. Libraries of other languages are not listed.

The same bundle gives the same evidence, byte for byte. Evidence of a signed bundle is signed, too: name the key with --key.
The signature is one that 'cosign verify-blob' checks. With --verify-with, check that evidence belongs to the bundle, is
signed, and is unchanged; nothing is written.`,
		Example: `  sealift evidence cluster.tar.gz
  sealift evidence cluster.tar.gz --key site.key --cyclonedx
  sealift evidence cluster.tar.gz -o json | jq '.images[] | select(.unknown)'
  sealift evidence cluster.tar.gz --verify-with site.pub
  sealift evidence update.tar.gz --base cluster.tar.gz
  sealift evidence new.tar.gz --since old.tar.gz`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.evidence(cmd.Context(), args[0], o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.key, "key", "", "private key that signs the evidence")
	flags.BoolVar(&o.unsigned, "unsigned", false, "write evidence of a signed bundle without a signature")
	flags.BoolVar(&o.cyclonedx, "cyclonedx", false, "also write the bill of materials in CycloneDX")
	flags.StringVar(&o.out, "out", "", "what the names of the files begin with; the default is the bundle's path without .tar.gz")
	flags.StringVar(&o.base, "base", "", "the earlier bundle whose files this one leaves out")
	flags.StringVar(&o.since, "since", "", "an earlier bundle: also write what changed since then")
	flags.StringArrayVar(&o.verify, "verify-with", nil, "check the evidence against this public key instead of writing it; may be repeated")
	app.AddOutputFlag(cmd, &o.format)
	for _, name := range []string{"key", "base", "since"} {
		_ = cmd.MarkFlagFilename(name)
	}
	_ = cmd.MarkFlagFilename("verify-with", "pub")
	cmd.MarkFlagsMutuallyExclusive("key", "unsigned", "verify-with")
	cmd.MarkFlagsMutuallyExclusive("since", "verify-with")
	return cmd
}

// open opens a bundle, and the earlier one whose files it leaves out, if one is named. Closing the archive closes both.
func (a commands) open(ctx context.Context, name, base string) (*bundle.Archive, error) {
	return archive.OpenWithBase(ctx, store.Opener{Log: a.Log, CAs: a.CAs}, name, base)
}

func (a commands) evidence(ctx context.Context, name string, o evidenceOptions) error {
	if o.out == "" {
		if strings.Contains(name, "://") {
			return app.UsageError("--out is missing: evidence of a URL is written to this machine")
		}
		o.out = bundle.Stem(name)
	}
	opened, err := a.open(ctx, name, o.base)
	if err != nil {
		return err
	}
	defer opened.Close()
	if len(o.verify) > 0 {
		return a.verify(opened, name, o)
	}
	if opened.Signed() && o.key == "" && !o.unsigned {
		return app.UsageError("%s is signed, so its evidence is signed, too: name the private key with --key, or give --unsigned", name)
	}
	request := Request{Prefix: o.out, Key: o.key, CycloneDX: o.cyclonedx, Notes: a.Notes(o.format)}
	if o.since != "" {
		if request.Since, err = a.open(ctx, o.since, ""); err != nil {
			return fmt.Errorf("--since: %w", err)
		}
		defer request.Since.Close()
	}
	statement, err := Write(ctx, a.App, opened, request)
	if err != nil {
		return err
	}
	return a.Print(o.format, statement, func() error { return printStatement(a.Out, statement) })
}

// Request says which evidence to write.
type Request struct {
	Prefix    string // of the names of files
	Key       string // file with the private key, or ""
	CycloneDX bool
	Since     *bundle.Archive // an earlier bundle to compare with, or nil
	Notes     io.Writer       // gets a line for each file
}

// Write writes the evidence of an open bundle.
func Write(ctx context.Context, a *app.App, opened *bundle.Archive, r Request) (*evidence.Statement, error) {
	key, err := a.SigningKey(r.Key)
	if err != nil {
		return nil, err
	}
	made, err := evidence.Collect(ctx, opened, evidence.Options{CycloneDX: r.CycloneDX, Since: r.Since, Public: publicSettings, Key: key})
	if err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	defer made.Close()
	written, err := made.Write(r.Prefix)
	for _, file := range written {
		fmt.Fprintf(r.Notes, "wrote %s\n", file)
	}
	return &made.Statement, err
}

func (a commands) verify(opened *bundle.Archive, name string, o evidenceOptions) error {
	keys, err := app.PublicKeys(o.verify)
	if err != nil {
		return err
	}
	statement, err := evidence.Verify(opened.Digest, keys, evidence.Reader(o.out))
	if err != nil {
		return fmt.Errorf("evidence of %s: %w", name, err)
	}
	return a.Print(o.format, statement, func() error {
		fmt.Fprintf(a.Out, "the evidence is of this bundle, signed and unchanged\n")
		return printStatement(a.Out, statement)
	})
}

func printStatement(out io.Writer, s *evidence.Statement) error {
	fmt.Fprintf(out, "index %s\n%s known, %d unknown\n", s.Index, app.Counted(s.Known, "image"), s.Unknown)
	fmt.Fprintf(out, "%s with a license, %d unknown, %s of licenses and notices\n", app.Counted(s.Licenses.Known, "component"), s.Licenses.Unknown, app.Counted(s.Licenses.Texts, "text"))
	t := plaintext.NewTable(tabwriter.NewWriter(out, 2, 0, 2, ' ', 0))
	for _, i := range s.Images {
		t.Printf("  %s\t%s\t%s\t%s\t%s\t%s\n", i.Ref, i.Platform, i.System, app.Counted(i.Packages, "package"), app.Counted(i.Programs, "Go program"), unknown(i.Unknown))
	}
	for _, f := range s.UnknownFiles {
		t.Printf("  %s\t\t\t\t\t%s\n", f.Path, unknown(f.Unknown))
	}
	return t.Flush()
}

func unknown(reasons []string) string {
	if len(reasons) == 0 {
		return ""
	}
	return "unknown: " + strings.Join(reasons, "; ")
}
