package node

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/archive"
	"github.com/sealift/sealift/cli/change"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/delivery"
)

func (a commands) imagesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "images",
		Short: "Manage the images in this node's containerd",
	}
	cmd.AddCommand(a.imagesLoadCommand(), a.imagesAddCommand(), a.imagesListCommand(), a.imagesRemoveCommand(), a.imagesPruneCommand())
	return cmd
}

func addContainerd(cmd *cobra.Command, socket *string) {
	cmd.Flags().StringVar(socket, "containerd", runtime.Socket, "socket of containerd")
}

func (a commands) imagesLoadCommand() *cobra.Command {
	var o install.ImageOptions
	var keys []string
	var format, root, base, verdict string
	var allNodes bool
	cmd := &cobra.Command{
		Use:   "load ARCHIVE",
		Short: "Load the images of a bundle or package",
		Long: `Load all images of a bundle or package into this node's containerd, and pin them so that the kubelet does not delete
them. Each blob is verified while it is copied. Blobs that containerd already has are not read.

An install does this by itself. Use the command for a node that has lost images, or to try out a package.

With --all-nodes, all nodes of the cluster load the images. Run the command on a control plane, as root: the other nodes fetch
from it what they lack. Workers load none of the images of Kubernetes' control plane. A node that is not Ready is named and left out.
If the command is interrupted, run it again.

A bundle that leaves out files of an earlier one, or has patches of them, takes these from what is installed on the node,
or from --base. All of its images are verified before the first one is loaded.`,
		Example: `  sealift images load /media/usb/cluster.tar.gz
  sealift images load flannel-0.26.7.tar.gz --key vendor.pub
  sealift images load greeting-1.0.0.tar.gz --all-nodes
  sealift images load update.tar.gz --base cluster.tar.gz`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			o.Archive = args[0]
			if o.Trusted, err = app.PublicKeys(keys); err != nil {
				return err
			}
			source := bundleSource{bundle: o.Archive, base: base, verdict: verdict}
			o.Open = func() (*bundle.Archive, error) { return source.open(cmd.Context(), a, root, o.Trusted...) }
			if allNodes {
				if cmd.Flags().Changed("containerd") {
					return app.UsageError("--containerd is for this node alone; leave it out with --all-nodes")
				}
				return a.deliverImages(cmd.Context(), delivery.Options{Root: root, Archive: o.Archive, Open: o.Open, Trusted: o.Trusted}, format)
			}
			o.Progress = func(ref string) { fmt.Fprintf(a.Err, "loading %s\n", ref) }
			result, err := install.LoadImages(cmd.Context(), o)
			if err != nil {
				return err
			}
			return a.Print(format, result, change.Line(a.Out, "%d images loaded, %d were there", result.Loaded, result.Present))
		},
	}
	addContainerd(cmd, &o.Socket)
	cmd.Flags().StringArrayVar(&keys, "key", nil, "public key that the archive must be signed with; may be repeated")
	cmd.Flags().BoolVar(&allNodes, "all-nodes", false, "load the images on all nodes of the cluster")
	cmd.Flags().StringVar(&root, "root", node.DefaultRoot, "state folder of the node, for --all-nodes and for a bundle that leaves out what is installed")
	archive.AddBaseFlag(cmd, &base)
	addVerdict(cmd, &verdict)
	app.AddOutputFlag(cmd, &format)
	return cmd
}

// deliverImages loads images on all nodes of the cluster.
func (a commands) deliverImages(ctx context.Context, o delivery.Options, format string) error {
	o.Say = func(text string) { fmt.Fprintln(a.Err, text) }
	result, err := delivery.Run(ctx, o)
	if err != nil {
		return err
	}
	text := "all images are on " + strings.Join(result.Nodes, ", ")
	if len(result.Away) > 0 {
		text += fmt.Sprintf("\nnot Ready, and left out: %s; when they are back, run: sealift images load %s --all-nodes", strings.Join(result.Away, ", "), o.Archive)
	}
	return a.Print(format, result, change.Line(a.Out, "%s", text))
}
