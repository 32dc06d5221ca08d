package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/bundle"
)

// archiveSummary is what inspect tells of an archive.
type archiveSummary struct {
	Path   string `json:"path"`
	Digest string `json:"digest"` // of the index
	Size   int64  `json:"size"`   // bytes of the archive; zero for an unpacked one
	bundle.Index
}

func summarize(a *bundle.Archive, path string) (archiveSummary, error) {
	info, err := os.Stat(path)
	if err != nil {
		return archiveSummary{}, err
	}
	s := archiveSummary{Path: path, Digest: a.Digest, Index: a.Index}
	if info.Mode().IsRegular() {
		s.Size = info.Size()
	}
	return s, nil
}

func (a *app) inspectCommand() *cobra.Command {
	var format string
	var entries bool
	cmd := &cobra.Command{
		Use:   "inspect ARCHIVE",
		Short: "Show what a package or bundle carries",
		Long: `Show what a package or bundle carries: images with their digests, host packages and assets with versions, sizes and
sha256, and with --entries every file. Only the index is read; 'sealift verify' reads everything.`,
		Example: `  sealift inspect dist/flannel-0.26.7.tar.gz
  sealift inspect cluster.tar.gz -o json | jq '.packages[].images[].digest'
  sealift inspect cluster.tar.gz --entries`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			archive, err := bundle.Open(args[0])
			if err != nil {
				return err
			}
			defer archive.Close()
			summary, err := summarize(archive, args[0])
			if err != nil {
				return err
			}
			if format == "json" {
				return a.printJSON(summary)
			}
			return printSummary(a.out, summary, entries)
		},
	}
	cmd.Flags().BoolVar(&entries, "entries", false, "list every file, too")
	addOutputFlag(cmd, &format)
	return cmd
}

func printSummary(out io.Writer, s archiveSummary, entries bool) error {
	fmt.Fprintf(out, "%s  %s, %s, %d files\nindex sha256:%s\n", s.Path, s.Kind, formatBytes(s.Size), len(s.Entries), s.Digest)
	for _, p := range s.Packages {
		fmt.Fprintf(out, "\n%s %s\n", p.Name, p.Version)
		t := tabwriter.NewWriter(out, 2, 0, 2, ' ', 0)
		for _, i := range p.Images {
			fmt.Fprintf(t, "  image\t%s\t%s\t%s\n", i.Ref, formatBytes(i.Size), i.Digest)
		}
		for _, as := range p.Assets {
			fmt.Fprintf(t, "  asset\t%s\t%s\tsha256:%s\n", as.Name, formatBytes(as.Size), as.SHA256)
		}
		for _, h := range p.HostPackages {
			fmt.Fprintf(t, "  %s\t%s %s\t%s\tsha256:%s\n", h.Target, h.Name, h.Version, formatBytes(h.Size), h.SHA256)
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

func (a *app) verifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify ARCHIVE",
		Short: "Check every byte of a package or bundle against its index",
		Long: `Read every file of a package or bundle, packed or unpacked, and check it against the digests of the index. All files
that differ are named. The digest printed is that of the index: compare it with what the publisher says.`,
		Example: "  sealift verify cluster.tar.gz",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.verify(cmd.Context(), args[0]) },
	}
	return cmd
}

func (a *app) verify(ctx context.Context, path string) error {
	archive, err := bundle.Open(path)
	if err != nil {
		return err
	}
	defer archive.Close()
	if err := archive.Verify(ctx); err != nil {
		return fmt.Errorf("%s is damaged; copy or download it again:\n%w", path, err)
	}
	fmt.Fprintf(a.out, "%s: %d files are as the index says, index sha256:%s\n", path, len(archive.Index.Entries), archive.Digest)
	return nil
}
