package build

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/bundle/lean"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/archive"
	"github.com/sealift/sealift/store"
)

type extractOptions struct {
	images string
	base   string
	format string
}

func (a commands) extractCommand() *cobra.Command {
	var o extractOptions
	cmd := &cobra.Command{
		Use:   "extract ARCHIVE|URL --images DIR",
		Short: "Write the images of a package or bundle as an OCI layout",
		Long: `Write the images of a package or bundle into an empty folder, as an OCI image layout that skopeo and other tools read.
Every blob is verified.

Of a lean archive (--lean), layers keep the compression that they have in the archive, and the manifests are rewritten to
name them. A layer that a patch made is not compressed. Such an image has another digest than in its registry. The command names it, and the layers that differ.

A bundle that leaves out files of an earlier one, or has patches of them, needs that: name it with --base.`,
		Example: `  sealift extract cluster.tar.gz --images layout
  sealift extract cluster.tar.gz --images layout -o json | jq '.[] | select(.original)'
  sealift extract update.tar.gz --base cluster.tar.gz --images layout
  skopeo copy oci:layout:registry.k8s.io/pause:3.10 docker://registry.example.com/pause:3.10`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.extract(cmd.Context(), args[0], o) },
	}
	cmd.Flags().StringVar(&o.images, "images", "", "folder for the layout; it must be empty, or not exist")
	archive.AddBaseFlag(cmd, &o.base)
	_ = cmd.MarkFlagDirname("images")
	app.AddOutputFlag(cmd, &o.format)
	return cmd
}

func (a commands) extract(ctx context.Context, location string, o extractOptions) (err error) {
	if o.images == "" {
		return app.UsageError("--images is missing; see 'sealift extract --help'")
	}
	from, err := archive.OpenWithBase(ctx, store.Opener{Log: a.Log, CAs: a.CAs}, location, o.base)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if err := os.MkdirAll(o.images, 0o755); err != nil {
		return err
	}
	present, err := os.ReadDir(o.images)
	if err != nil {
		return err
	}
	if len(present) > 0 {
		return fmt.Errorf("%s is not empty; name an empty folder", o.images)
	}
	root, err := os.OpenRoot(o.images)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	list, err := lean.Extract(ctx, from, root)
	if err != nil {
		return fmt.Errorf("extract the images of %s: %w", location, err)
	}
	if o.format == "json" {
		return a.PrintJSON(list)
	}
	for _, image := range list {
		fmt.Fprintf(a.Out, "%s %s\n", image.Ref, image.Digest)
		if image.Original != "" {
			fmt.Fprintf(a.Out, "  original %s\n", image.Original)
		}
		for _, l := range image.Layers {
			fmt.Fprintf(a.Out, "  layer %s is %s, with another compression\n", l.Original, l.Digest)
		}
	}
	return nil
}
