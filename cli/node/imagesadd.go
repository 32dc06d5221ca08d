package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/change"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/recovery/retention"
)

func (a commands) imagesAddCommand() *cobra.Command {
	var o install.AddOptions
	var keys []string
	var base, root, verdict string
	var flags change.Flags
	cmd := &cobra.Command{
		Use:   "add SOURCE",
		Short: "Add an application's images from a bundle, an OCI layout or a docker-archive",
		Long: `Add the images of an application to this node's containerd, and pin them. They stay over upgrades, until 'sealift images remove'
removes them. SOURCE is a bundle or package, the folder of an OCI layout, an archive of one, or a docker-archive, as skopeo, crane,
buildah and 'docker save' make them. A tar may be compressed with gzip.

Before the first change, the command checks that the disk has the space. Content is checked against its digests, also those in names.
A name that another image of the installed bundle has is refused. If the command is interrupted, run it again.

On a control plane of a cluster with containerd.mirror, the other nodes pull these images from it.`,
		Example: `  sealift images add /media/usb/shop.tar --plan
  sealift images add /media/usb/shop.tar
  sealift images add layout --name registry.example.com/shop/web:1.4`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			o.Archive = args[0]
			if o.Trusted, err = app.PublicKeys(keys); err != nil {
				return err
			}
			o.Open = func() (*bundle.Archive, error) {
				source := bundleSource{bundle: o.Archive, base: base, verdict: verdict}
				return source.open(cmd.Context(), a, root, o.Trusted...)
			}
			return a.imagesAdd(cmd.Context(), o, flags)
		},
	}
	addContainerd(cmd, &o.Socket)
	cmd.Flags().StringArrayVar(&keys, "key", nil, "public key that a bundle must be signed with; may be repeated")
	cmd.Flags().StringVar(&base, "base", "", "the earlier bundle with the files that a bundle leaves out")
	_ = cmd.MarkFlagFilename("base")
	addVerdict(cmd, &verdict)
	addRoot(cmd, &root)
	cmd.Flags().StringVar(&o.Name, "name", "", "name of the image, if the archive or layout has none")
	flags.AddPlan(cmd, "what would be added")
	return cmd
}

func (a commands) imagesAdd(ctx context.Context, o install.AddOptions, flags change.Flags) error {
	o.Progress = func(ref string) { fmt.Fprintf(a.Err, "loading %s\n", ref) }
	list := func(verb string, work func(*install.Adding) (install.Addition, error)) (_ change.Result, err error) {
		adding, err := install.OpenImages(ctx, o)
		if err != nil {
			return change.Result{}, err
		}
		defer func() { err = errors.Join(err, adding.Close()) }()
		what, err := work(adding)
		if err != nil {
			return change.Result{}, err
		}
		return change.Result{Document: what, Text: func() error {
			for _, ref := range what.Images {
				fmt.Fprintln(a.Out, verb, ref)
			}
			if len(what.Images) == 0 {
				fmt.Fprintln(a.Out, verb, "the images of "+o.Archive+", whose names are not known before it is read")
			}
			if flags.Plan {
				fmt.Fprintf(a.Out, "they need %s; the disk of containerd has %s free\n", app.FormatBytes(what.Bytes), app.FormatBytes(int64(what.Free)))
			}
			return nil
		}}, nil
	}
	planned := func(p *install.Adding) (install.Addition, error) { return p.Addition, nil }
	return change.Do(ctx, a.App, flags, change.Work{
		To: "add images", Unasked: true,
		Plan: func() (change.Result, error) { return list("would add", planned) },
		Check: func(context.Context) error {
			_, err := list("", planned)
			return err
		},
		Run: func(context.Context, *change.Progress) (change.Result, error) {
			return list("added", func(p *install.Adding) (install.Addition, error) { return p.Add(ctx) })
		},
	})
}

func (a commands) imagesRemoveCommand() *cobra.Command {
	var o retention.Node
	var flags change.Flags
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove an image that 'sealift images add' added",
		Long: `Remove an image that 'sealift images add' added from this node's containerd. Its content goes with its last name. An image that
a container, the installed bundle or an undo needs is refused, and so is one that came in another way: see 'sealift images list'. Run
the command as root. It works on this node alone.`,
		Example: "  sealift images remove registry.example.com/shop/web:1.4 --plan\n  sealift images remove registry.example.com/shop/web:1.4",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.imagesRemove(cmd.Context(), o, args[0], flags)
		},
	}
	addRoot(cmd, &o.Root)
	addContainerd(cmd, &o.Socket)
	flags.Add(cmd, "what would be removed")
	return cmd
}

func (a commands) imagesRemove(ctx context.Context, o retention.Node, name string, flags change.Flags) error {
	list := func(verb string, work func(context.Context, string) (retention.Image, error)) (change.Result, error) {
		image, err := work(ctx, name)
		if err != nil {
			return change.Result{}, err
		}
		return change.Result{Document: image, Text: func() error {
			for _, one := range image.Names {
				fmt.Fprintln(a.Out, verb, one)
			}
			return nil
		}}, nil
	}
	return change.Do(ctx, a.App, flags, change.Work{
		To: "remove an image", Question: "Remove " + name + " from this node?", Unasked: true,
		Plan: func() (change.Result, error) { return list("would remove", o.Added) },
		Check: func(ctx context.Context) error {
			_, err := o.Added(ctx, name)
			return err
		},
		Run: func(context.Context, *change.Progress) (change.Result, error) {
			return list("removed", o.RemoveAdded)
		},
	})
}
