package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/plaintext"
)

func (a commands) cacheCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "Manage the cache of builds",
		Long: `Builds keep downloaded files by sha256 in a directory that any number of builds can share. If a build ends in the
middle of a download, the next build resumes it.

After each build, the cache is pruned to --cache-size. The least recently used items are removed first. Items that a
running build has used are never removed.`,
		Example: "  sealift cache ls\n  sealift cache prune --max-size 10GiB\n  sealift cache verify",
	}
	cmd.AddCommand(a.cacheListCommand(), a.cachePruneCommand(), a.cacheVerifyCommand())
	return cmd
}

func (a commands) cacheListCommand() *cobra.Command {
	var flags cacheFlags
	var format string
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the items of the cache, least recently used first",
		Long: `List the items of the cache, least recently used first: blobs by sha256, incomplete downloads, compressed forms, and
facts about tags and URLs.`,
		Example: "  sealift cache ls\n  sealift cache ls -o json | jq '[.[].size] | add'",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			store, err := flags.openExisting(a)
			if err != nil {
				return err
			}
			if store == nil {
				return a.printItems(nil, format, "in the cache")
			}
			defer store.Close()
			items, err := store.List()
			if err != nil {
				return err
			}
			return a.printItems(items, format, "in the cache")
		},
	}
	flags.add(cmd.Flags())
	app.AddOutputFlag(cmd, &format)
	return cmd
}

func (a commands) cachePruneCommand() *cobra.Command {
	var flags cacheFlags
	var format string
	var unused time.Duration
	var dryRun bool
	size := byteSize(-1)
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove the least recently used items",
		Long: `Remove the least recently used items until the cache is within --max-size, and all items that were not used for the
time in --unused. Items that a running build has used are kept.`,
		Example: "  sealift cache prune --max-size 10GiB\n  sealift cache prune --unused 720h --dry-run\n  sealift cache prune --max-size 0",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if size < 0 && unused <= 0 {
				return app.UsageError("say what to remove with --max-size or --unused; see '%s --help'", cmd.CommandPath())
			}
			o := cache.PruneOptions{MaxSize: int64(size), DryRun: dryRun}
			if unused > 0 {
				o.Unused = time.Now().Add(-unused)
			}
			store, err := flags.openExisting(a)
			if err != nil {
				return err
			}
			if store == nil {
				return a.printItems(nil, format, "removed")
			}
			defer store.Close()
			removed, err := store.Prune(o)
			if err != nil {
				return err
			}
			if dryRun {
				return a.printItems(removed, format, "would be removed")
			}
			return a.printItems(removed, format, "removed")
		},
	}
	cmd.Flags().Var(&size, "max-size", "size of the cache afterwards, such as 10GiB")
	cmd.Flags().DurationVar(&unused, "unused", 0, "remove items not used for this time, such as 720h")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be removed, and remove nothing")
	flags.add(cmd.Flags())
	app.AddOutputFlag(cmd, &format)
	return cmd
}

func (a commands) printItems(items []cache.Item, format, what string) error {
	if format == "json" {
		if items == nil {
			items = []cache.Item{}
		}
		return a.PrintJSON(items)
	}
	t := plaintext.NewTable(tabwriter.NewWriter(a.Out, 2, 0, 2, ' ', 0))
	var total int64
	for _, i := range items {
		t.Printf("%s\t%s\t%s\t%s\n", i.Used.Format(time.DateTime), i.Kind, app.FormatBytes(i.Size), i.Name)
		total += i.Size
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "%d items, %s %s\n", len(items), app.FormatBytes(total), what)
	return nil
}

// verified is the result of 'cache verify'.
type verified struct {
	Blobs   int      `json:"blobs"`
	Size    int64    `json:"size"`    // bytes
	Damaged []string `json:"damaged"` // digests, removed
}

func (a commands) cacheVerifyCommand() *cobra.Command {
	var flags cacheFlags
	var format string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Verify every blob of the cache and remove damaged ones",
		Long: `Read every blob of the cache and compare it with its sha256. The command removes and names damaged blobs, and then
fails. The next build fetches them again.`,
		Example: "  sealift cache verify",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := flags.openExisting(a)
			if err != nil {
				return err
			}
			v := verified{Damaged: []string{}}
			if store != nil {
				defer store.Close()
				if err := v.add(cmd.Context(), store); err != nil {
					return err
				}
			}
			if format == "json" {
				err = a.PrintJSON(v)
			} else {
				fmt.Fprintf(a.Out, "%d blobs, %s, %d damaged\n", v.Blobs, app.FormatBytes(v.Size), len(v.Damaged))
			}
			for _, digest := range v.Damaged {
				err = errors.Join(err, fmt.Errorf("blob %s was damaged and has been removed; builds fetch it again", digest))
			}
			return err
		},
	}
	flags.add(cmd.Flags())
	app.AddOutputFlag(cmd, &format)
	return cmd
}

// add verifies every blob of a cache.
func (v *verified) add(ctx context.Context, store *cache.Cache) error {
	items, err := store.List()
	if err != nil {
		return err
	}
	for _, item := range items {
		if item.Kind != cache.Blob {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		err := store.Verify(item.Name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // pruned in the meantime
			continue
		case errors.Is(err, cache.ErrMismatch):
			v.Damaged = append(v.Damaged, item.Name)
		case err != nil:
			return err
		}
		v.Blobs++
		v.Size += item.Size
	}
	return nil
}
