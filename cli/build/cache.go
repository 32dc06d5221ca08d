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
)

func (a commands) cacheCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "Look after what builds have fetched",
		Long: `Builds keep what they fetch by its sha256, in a directory that any number of them share. What is half fetched when a
build ends is continued by the next one.

After each build the cache is pruned to --cache-size, the least recently used first. What a running build has used is
never removed.`,
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
		Short: "List what the cache has, the least recently used first",
		Long: `List what the cache has, the least recently used first: blobs by their sha256, parts of blobs that are still to be
fetched, compressed forms, and facts about tags and URLs.`,
		Example: "  sealift cache ls\n  sealift cache ls -o json | jq '[.[].size] | add'",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			store, err := flags.open()
			if err != nil {
				return err
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
		Short: "Remove what was not used for the longest time",
		Long: `Remove items, the least recently used first, until the cache is within --max-size, and all that were not used for
--unused. What a running build has used is not removed.`,
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
			store, err := flags.open()
			if err != nil {
				return err
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
	cmd.Flags().Var(&size, "max-size", "size that the cache may have afterwards, such as 10GiB")
	cmd.Flags().DurationVar(&unused, "unused", 0, "remove what was not used for so long, such as 720h")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be removed, and leave it")
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
	t := tabwriter.NewWriter(a.Out, 2, 0, 2, ' ', 0)
	var total int64
	for _, i := range items {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", i.Used.Format(time.DateTime), i.Kind, app.FormatBytes(i.Size), i.Name)
		total += i.Size
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "%d items, %s %s\n", len(items), app.FormatBytes(total), what)
	return nil
}

// verified is what cache verify tells.
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
		Short: "Read every blob of the cache and remove those that are damaged",
		Long: `Read every blob of the cache and check it against its sha256. Damaged ones are removed and named, and the command
fails; the next build fetches them again.`,
		Example: "  sealift cache verify",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := flags.open()
			if err != nil {
				return err
			}
			defer store.Close()
			v, err := verifyCache(cmd.Context(), store)
			if err != nil {
				return err
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

func verifyCache(ctx context.Context, store *cache.Cache) (verified, error) {
	v := verified{Damaged: []string{}}
	items, err := store.List()
	if err != nil {
		return v, err
	}
	for _, item := range items {
		if item.Kind != cache.Blob {
			continue
		}
		if err := ctx.Err(); err != nil {
			return v, err
		}
		err := store.Verify(item.Name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // pruned meanwhile
			continue
		case errors.Is(err, cache.ErrMismatch):
			v.Damaged = append(v.Damaged, item.Name)
		case err != nil:
			return v, err
		}
		v.Blobs++
		v.Size += item.Size
	}
	return v, nil
}
