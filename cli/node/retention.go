package node

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/change"
	"github.com/sealift/sealift/installer/recovery/retention"
	"github.com/sealift/sealift/internal/plaintext"
)

func (a commands) imagesListCommand() *cobra.Command {
	var o retention.Node
	var format string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List this node's images, and what needs them",
		Long: `List the images in this node's containerd, with the bytes that they take packed, and what needs each: a package of the
installed bundle, an undo of the last upgrade, containers, or a person who has loaded or added it. Run the command as root.`,
		Example: "  sealift images list\n  sealift images list -o json | jq -r '.[] | select(.containers > 0) | .names[0]'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := o.Images(cmd.Context())
			if err != nil {
				return err
			}
			return a.Print(format, list, func() error { return a.printImages(list) })
		},
	}
	addRoot(cmd, &o.Root)
	addContainerd(cmd, &o.Socket)
	app.AddOutputFlag(cmd, &format)
	return cmd
}

func (a commands) printImages(list []retention.Image) error {
	t := plaintext.NewTable(tabwriter.NewWriter(a.Out, 2, 0, 2, ' ', 0))
	t.Println("IMAGE\tBYTES\tNEEDED BY")
	for _, i := range list {
		why := strings.Join(i.Reasons, ", ")
		if why == "" {
			why = "-"
		}
		t.Printf("%s\t%s\t%s\n", i.Names[0], app.FormatBytes(i.Bytes), why)
	}
	return t.Flush()
}

func (a commands) imagesPruneCommand() *cobra.Command {
	var o retention.Node
	var flags change.Flags
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove the images of earlier bundles that nothing needs",
		Long: `Remove images from this node's containerd that an earlier bundle brought, and that nothing needs any more: not the installed
bundle, not an undo of the last upgrade, and no container. Images that 'sealift images load', 'images add' or another program brought stay.

Each upgrade does this by itself when it begins. Run the command as root to get the space back earlier. It works on this node alone.`,
		Example: "  sealift images prune --plan\n  sealift images prune",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.imagesPrune(cmd.Context(), o, flags)
		},
	}
	addRoot(cmd, &o.Root)
	addContainerd(cmd, &o.Socket)
	flags.Add(cmd, "what would be removed")
	return cmd
}

func (a commands) imagesPrune(ctx context.Context, o retention.Node, flags change.Flags) error {
	list := func(verb string, work func(context.Context) ([]retention.Image, error)) (change.Result, error) {
		all, err := work(ctx)
		return change.Result{Document: all, Text: func() error {
			for _, i := range all {
				fmt.Fprintln(a.Out, verb, i.Names[0])
			}
			if len(all) == 0 && err == nil {
				fmt.Fprintln(a.Out, "nothing to do: every image is needed")
			}
			return nil
		}}, err
	}
	return change.Do(ctx, a.App, flags, change.Work{
		To: "remove images", Question: "Remove the images of earlier bundles that nothing needs from this node?", Unasked: true,
		Plan: func() (change.Result, error) { return list("would remove", o.Unneeded) },
		Run:  func(context.Context, *change.Progress) (change.Result, error) { return list("removed", o.Prune) },
	})
}
