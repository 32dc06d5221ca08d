package archive

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/plaintext"
	"github.com/sealift/sealift/store"
)

func (a commands) inspectCommand() *cobra.Command {
	var format string
	var entries bool
	cmd := &cobra.Command{
		Use:   "inspect ARCHIVE|URL",
		Short: "Show the content of a package or bundle",
		Long: `Show the content of a package or bundle: images with their digests, host packages and assets with version, size and
sha256, and with --entries every file. The command reads only the index, also from the URL of an archive in a store.
'sealift verify' reads everything.`,
		Example: `  sealift inspect dist/flannel-0.26.7.tar.gz
  sealift inspect s3://packages/stable/flannel-0.26.7.tar.gz
  sealift inspect cluster.tar.gz -o json | jq '.packages[].images[].digest'
  sealift inspect cluster.tar.gz --entries`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opened, err := Open(cmd.Context(), store.Opener{Log: a.Log, CAs: a.CAs}, args[0])
			if err != nil {
				return err
			}
			defer opened.Close()
			summary, err := Summarize(opened, args[0])
			if err != nil {
				return err
			}
			return a.Print(format, summary, func() error { return printSummary(a.Out, summary, entries) })
		},
	}
	cmd.Flags().BoolVar(&entries, "entries", false, "also list every file")
	app.AddOutputFlag(cmd, &format)
	return cmd
}

// printBase prints what a bundle leaves out.
func printBase(out io.Writer, s Summary) {
	var had, patched, similar int
	for _, e := range s.Entries {
		switch {
		case e.Encoding == bundle.InBase:
			had++
		case e.Within():
			similar++
		case e.Encoding == bundle.Patched:
			patched++
		}
	}
	if similar > 0 {
		fmt.Fprintf(out, "patches make %d of its files of similar ones in it\n", similar)
	}
	if s.Base == "" {
		return
	}
	fmt.Fprintf(out, "adds to the bundle with index sha256:%s: %d files are there, and patches make %d of its files\n", s.Base, had, patched)
}

func printSummary(out io.Writer, s Summary, entries bool) error {
	signed := "not signed"
	if s.Signed {
		signed = "signed ('sealift verify' tells by whom)"
	}
	fmt.Fprintf(out, "%s  %s, %s, %d files\nindex sha256:%s\n%s\n", s.Path, s.Kind, app.FormatBytes(s.Size), len(s.Entries), s.Digest, signed)
	sizes := plaintext.NewTable(tabwriter.NewWriter(out, 2, 0, 2, ' ', 0))
	for _, p := range s.PlatformSizes {
		sizes.Printf("for %s\t%s\t%s for it alone\n", p.Platform, app.FormatBytes(p.Size), app.FormatBytes(p.Alone))
	}
	if err := sizes.Flush(); err != nil {
		return err
	}
	printBase(out, s)
	for _, p := range s.Packages {
		fmt.Fprintf(out, "\n%s %s\n", p.Name, p.Version)
		t := plaintext.NewTable(tabwriter.NewWriter(out, 2, 0, 2, ' ', 0))
		for _, i := range p.Images {
			t.Printf("  image\t%s\t%s\t%s\n", i.Ref, app.FormatBytes(i.Size), i.Digest)
		}
		for _, as := range p.Assets {
			t.Printf("  asset\t%s\t%s\tsha256:%s\n", as.Name, app.FormatBytes(as.Size), as.SHA256)
		}
		for _, h := range p.HostPackages {
			t.Printf("  %s\t%s %s %s\t%s\tsha256:%s\n", h.Target, h.Name, h.Version, h.Arch, app.FormatBytes(h.Size), h.SHA256)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if !entries {
		return nil
	}
	fmt.Fprintln(out)
	t := plaintext.NewTable(tabwriter.NewWriter(out, 2, 0, 2, ' ', 0))
	for _, e := range s.Entries {
		t.Printf("%04o\t%d\t%s\t%s\n", uint32(e.Mode), e.Size, e.Encoding, e.Path)
	}
	return t.Flush()
}
