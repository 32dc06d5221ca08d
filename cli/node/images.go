package node

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/runtime"
)

func (a commands) imagesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "images",
		Short: "Manage the images in this node's containerd",
	}
	cmd.AddCommand(a.imagesLoadCommand())
	return cmd
}

func (a commands) imagesLoadCommand() *cobra.Command {
	var o install.ImageOptions
	var keys []string
	var format string
	cmd := &cobra.Command{
		Use:   "load ARCHIVE",
		Short: "Load the images of a bundle or package",
		Long: `Load all images of a bundle or package into this node's containerd, and pin them so that the kubelet does not delete
them. Each blob is verified while it is copied. Blobs that containerd already has are not read.

An install does this by itself. Use the command for a node that has lost images, or to try out a package.`,
		Example: `  sealift images load /media/usb/cluster.tar.gz
  sealift images load flannel-0.26.7.tar.gz --key vendor.pub`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			o.Archive = args[0]
			if o.Trusted, err = app.PublicKeys(keys); err != nil {
				return err
			}
			o.Progress = func(ref string) { fmt.Fprintf(a.Err, "loading %s\n", ref) }
			result, err := install.LoadImages(cmd.Context(), o)
			if err != nil {
				return err
			}
			if format == "json" {
				return a.PrintJSON(result)
			}
			fmt.Fprintf(a.Out, "%d images loaded, %d were there\n", result.Loaded, result.Present)
			return nil
		},
	}
	cmd.Flags().StringVar(&o.Socket, "containerd", runtime.Socket, "socket of containerd")
	cmd.Flags().StringArrayVar(&keys, "key", nil, "public key that the archive must be signed with; may be repeated")
	app.AddOutputFlag(cmd, &format)
	return cmd
}
