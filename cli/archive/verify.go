package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/ocilayout"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/transfer"
	"github.com/sealift/sealift/store"
)

type verifyOptions struct {
	keys     []string
	packages bool
	media    bool
	base     string
	format   string
}

func (a commands) verifyCommand() *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify ARCHIVE|URL",
		Short: "Verify every byte of a package or bundle",
		Long: `Read every file of a package or bundle and compare it with the digests in the index. The archive may be packed,
unpacked or in a store. The command names every file that differs. It also compares the packages in a bundle with
their own indexes. It unpacks layers that were compressed again (--lean), and compares what they unpack to.

A bundle that leaves out files of an earlier one, or has patches of them, is verified together with that: name it with
--base. The command then makes each file of its patch.

With --key, the archive must also be signed with the private key that belongs to this public key, or to one of
several. The signature of a bundle covers everything in it. A bundle that is not signed is refused, because anybody
could have changed its Installer, its install.sh and its sealift. With --packages, it is enough that all of its
packages are signed.

Without --key, compare the printed digest with the one that the publisher announces.

A bundle in parts ('sealift bundle --split') is named by its folder, by one of its parts, or by several folders as
DIR:DIR. With --media, read every block of every part and say which are damaged or missing, and whether the others
replace them. The exit code is 0 as long as they do.`,
		Example: `  sealift verify cluster.tar.gz --key release.pub
  sealift verify cluster.tar.gz --key vendor.pub --key site.pub -o json
  sealift verify downloaded.tar.gz --key vendor.pub --packages
  sealift verify update.tar.gz --base cluster.tar.gz
  sealift verify /media/dvd1:/media/dvd2 --media`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.verify(cmd.Context(), args[0], o) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&o.keys, "key", nil, "public key that the archive must be signed with; may be repeated")
	flags.BoolVar(&o.packages, "packages", false, "accept an unsigned bundle if all of its packages are signed")
	flags.BoolVar(&o.media, "media", false, "report damaged and missing parts, and whether they can be repaired")
	AddBaseFlag(cmd, &o.base)
	app.AddOutputFlag(cmd, &o.format)
	_ = cmd.MarkFlagFilename("key", "pub")
	return cmd
}

// verdict is the output of verify for a valid archive.
type verdict struct {
	Path   string `json:"path"`
	Digest string `json:"digest"` // of the index
	Files  int    `json:"files"`
	Signed bool   `json:"signed"` // has a signature, checked or not
	// Trust is set if keys were given.
	Trust *bundle.Trust `json:"trust,omitempty"`
	// Repaired says what of a bundle in parts was damaged or missing, and was computed from the other parts.
	Repaired []string `json:"repaired,omitempty"`
}

func (a commands) verify(ctx context.Context, path string, o verifyOptions) error {
	if o.media {
		return a.verifyMedia(ctx, path, o)
	}
	if o.packages && len(o.keys) == 0 {
		return app.UsageError("--packages needs --key; see 'sealift verify --help'")
	}
	keys, err := app.PublicKeys(o.keys)
	if err != nil {
		return err
	}
	archive, err := Open(ctx, store.Opener{Log: a.Log, CAs: a.CAs}, path, keys...)
	if errors.Is(err, bundle.ErrUntrusted) {
		return fmt.Errorf("not to be trusted: %w", err)
	}
	if err != nil {
		return err
	}
	defer archive.Close()
	if err := errors.Join(AddBase(archive, o.base), archive.CheckBase()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	v := verdict{Path: transfer.Shown(path), Digest: archive.Digest, Files: len(archive.Index.Entries), Signed: archive.Signed()}
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
	if err := errors.Join(archive.Verify(ctx), archive.VerifyLayers(ctx), ocilayout.CheckForms(archive)); err != nil {
		return unverified(ctx, path, err)
	}
	if p := archive.Parts(); p != nil {
		v.Repaired = p.Repaired()
	}
	if o.format == "json" {
		return a.PrintJSON(v)
	}
	v.print(a.Out)
	return nil
}

// unverified returns the error for an archive that failed, or that was not read to its end.
func unverified(ctx context.Context, path string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s was not verified to its end: %w", path, context.Cause(ctx))
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return fmt.Errorf("%s could not be read to its end; run the command again:\n%w", path, err)
	}
	return fmt.Errorf("%s is damaged; copy or download it again:\n%w", path, err)
}

func (v verdict) print(out io.Writer) {
	fmt.Fprintf(out, "%s: %d files are as the index says, index sha256:%s\n", v.Path, v.Files, v.Digest)
	for _, note := range v.Repaired {
		fmt.Fprintln(out, note)
	}
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
