// Package archive is the commands that look into packages and bundles: inspect and verify.
package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/builder/sbom"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/app"
)

// Summary is what inspect tells of an archive.
type Summary struct {
	Path   string `json:"path"`
	Digest string `json:"digest"` // of the index
	Size   int64  `json:"size"`   // bytes of the archive; zero for an unpacked one
	Signed bool   `json:"signed"` // by whomever
	bundle.Index
}

// Summarize tells of an archive at a path, and its size in bytes.
func Summarize(a *bundle.Archive, path string, size int64) Summary {
	return Summary{Path: path, Digest: a.Digest, Size: size, Signed: a.Signed(), Index: a.Index}
}

func (a commands) inspectCommand() *cobra.Command {
	var format string
	var entries, materials bool
	cmd := &cobra.Command{
		Use:   "inspect ARCHIVE|URL",
		Short: "Show what a package or bundle carries",
		Long: `Show what a package or bundle carries: images with their digests, host packages and assets with versions, sizes and
sha256, and with --entries every file. Only the index is read, also of one that lies in a store and is named by its
URL; 'sealift verify' reads everything.

With --sbom, print the bill of materials instead, SPDX 2.3 in JSON: that of a package, or one made of those of all
packages of a bundle.`,
		Example: `  sealift inspect dist/flannel-0.26.7.tar.gz
  sealift inspect s3://packages/stable/flannel-0.26.7.tar.gz
  sealift inspect cluster.tar.gz -o json | jq '.packages[].images[].digest'
  sealift inspect cluster.tar.gz --entries
  sealift inspect cluster.tar.gz --sbom >cluster.spdx.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			archive, size, err := Open(cmd.Context(), a.Log, args[0])
			if err != nil {
				return err
			}
			defer archive.Close()
			if materials {
				return a.printMaterials(archive, args[0])
			}
			summary := Summarize(archive, args[0], size)
			if format == "json" {
				return a.PrintJSON(summary)
			}
			return printSummary(a.Out, summary, entries)
		},
	}
	cmd.Flags().BoolVar(&entries, "entries", false, "list every file, too")
	cmd.Flags().BoolVar(&materials, "sbom", false, "print the bill of materials, SPDX 2.3 in JSON")
	app.AddOutputFlag(cmd, &format)
	return cmd
}

// maxMaterials bounds the bill of materials of one package, in bytes; each line of one has some hundred.
const maxMaterials = 64 << 20

func (a commands) printMaterials(archive *bundle.Archive, name string) error {
	var documents [][]byte
	for _, p := range archive.Index.Packages {
		data, err := archive.ReadFile(path.Join(p.Dir(), sbom.FileName), maxMaterials)
		if err != nil {
			return fmt.Errorf("%s: bill of materials of %s %s: %w; build the package again", name, p.Name, p.Version, err)
		}
		documents = append(documents, data)
	}
	if archive.Index.Kind == bundle.KindPackage {
		_, err := a.Out.Write(documents[0])
		return err
	}
	merged, err := sbom.Merge(archive.Digest, documents...)
	if err != nil {
		return err
	}
	_, err = a.Out.Write(merged)
	return err
}

func printSummary(out io.Writer, s Summary, entries bool) error {
	signed := "not signed"
	if s.Signed {
		signed = "signed ('sealift verify' tells by whom)"
	}
	fmt.Fprintf(out, "%s  %s, %s, %d files\nindex sha256:%s\n%s\n", s.Path, s.Kind, app.FormatBytes(s.Size), len(s.Entries), s.Digest, signed)
	for _, p := range s.Packages {
		fmt.Fprintf(out, "\n%s %s\n", p.Name, p.Version)
		t := tabwriter.NewWriter(out, 2, 0, 2, ' ', 0)
		for _, i := range p.Images {
			fmt.Fprintf(t, "  image\t%s\t%s\t%s\n", i.Ref, app.FormatBytes(i.Size), i.Digest)
		}
		for _, as := range p.Assets {
			fmt.Fprintf(t, "  asset\t%s\t%s\tsha256:%s\n", as.Name, app.FormatBytes(as.Size), as.SHA256)
		}
		for _, h := range p.HostPackages {
			fmt.Fprintf(t, "  %s\t%s %s\t%s\tsha256:%s\n", h.Target, h.Name, h.Version, app.FormatBytes(h.Size), h.SHA256)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if !entries {
		return nil
	}
	fmt.Fprintln(out)
	t := tabwriter.NewWriter(out, 2, 0, 2, ' ', 0)
	for _, e := range s.Entries {
		fmt.Fprintf(t, "%04o\t%d\t%s\t%s\n", uint32(e.Mode), e.Size, e.Encoding, e.Path)
	}
	return t.Flush()
}

type verifyOptions struct {
	keys     []string
	packages bool
	format   string
}

func (a commands) verifyCommand() *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify ARCHIVE|URL",
		Short: "Check every byte of a package or bundle against its index and signature",
		Long: `Read every file of a package or bundle, packed, unpacked or in a store, and check it against the digests of the index. All
files that differ are named. The packages inside a bundle are checked against their own indexes, too.

With --key, an archive must also be signed with the private half of that key, or of one of several keys. Who signed a
bundle vouches for all that is in it. A bundle that is not signed itself is refused, since its Installer, its
install.sh and its sealift could be anybody's; with --packages it is enough that all of its packages are signed.

Without --key, compare the digest that is printed with what the publisher says.`,
		Example: `  sealift verify cluster.tar.gz --key release.pub
  sealift verify cluster.tar.gz --key vendor.pub --key site.pub -o json
  sealift verify downloaded.tar.gz --key vendor.pub --packages`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.verify(cmd.Context(), args[0], o) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&o.keys, "key", nil, "public key that the archive must be signed with; may be repeated")
	flags.BoolVar(&o.packages, "packages", false, "accept a bundle that is not signed itself, if all of its packages are")
	app.AddOutputFlag(cmd, &o.format)
	_ = cmd.MarkFlagFilename("key", "pub")
	return cmd
}

// verdict is what verify tells of an archive that is good.
type verdict struct {
	Path   string `json:"path"`
	Digest string `json:"digest"` // of the index
	Files  int    `json:"files"`
	Signed bool   `json:"signed"` // has a signature, checked or not
	// Trust is there when keys were given.
	Trust *bundle.Trust `json:"trust,omitempty"`
}

func (a commands) verify(ctx context.Context, path string, o verifyOptions) error {
	if o.packages && len(o.keys) == 0 {
		return app.UsageError("--packages needs --key; see 'sealift verify --help'")
	}
	keys, err := app.PublicKeys(o.keys)
	if err != nil {
		return err
	}
	archive, _, err := Open(ctx, a.Log, path, keys...)
	if errors.Is(err, bundle.ErrUntrusted) {
		return fmt.Errorf("not to be trusted: %w", err)
	}
	if err != nil {
		return err
	}
	defer archive.Close()
	v := verdict{Path: path, Digest: archive.Digest, Files: len(archive.Index.Entries), Signed: archive.Signed()}
	if len(keys) > 0 {
		trust, err := archive.VerifySignature(keys...)
		if err != nil {
			return fmt.Errorf("%s is not to be trusted: %w", path, err)
		}
		if len(trust.Uncovered) > 0 && !o.packages {
			return fmt.Errorf("%s is not to be trusted: its packages are signed, but not the bundle itself: %s could be anybody's; "+
				"sign it with 'sealift bundle --key', or accept that with --packages", path, strings.Join(trust.Uncovered, ", "))
		}
		v.Trust = &trust
	}
	if err := archive.Verify(ctx); err != nil {
		return fmt.Errorf("%s is damaged; copy or download it again:\n%w", path, err)
	}
	if o.format == "json" {
		return a.PrintJSON(v)
	}
	v.print(a.Out)
	return nil
}

func (v verdict) print(out io.Writer) {
	fmt.Fprintf(out, "%s: %d files are as the index says, index sha256:%s\n", v.Path, v.Files, v.Digest)
	switch {
	case v.Trust == nil && v.Signed:
		fmt.Fprintln(out, "signed, which was not checked: give the public key with --key")
	case v.Trust == nil:
		fmt.Fprintln(out, "not signed")
	case v.Trust.Signer != "":
		fmt.Fprintf(out, "signed by %s\n", v.Trust.Signer)
	}
	if v.Trust == nil {
		return
	}
	for _, p := range v.Trust.Packages {
		if p.Signer != "" {
			fmt.Fprintf(out, "package %s %s: signed by %s\n", p.Name, p.Version, p.Signer)
		}
	}
	for _, name := range v.Trust.Uncovered {
		fmt.Fprintf(out, "not covered by a signature: %s\n", name)
	}
}
