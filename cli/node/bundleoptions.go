package node

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/installers"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/journal/node"
)

// bundleOptions are the flags of the commands that change a node, or its cluster, to what a bundle has.
type bundleOptions struct {
	source  bundleSource
	keys    []string
	root    string
	yes     bool
	verbose bool
	changes installers.Adjustment
}

func (o *bundleOptions) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	o.source.add(cmd)
	flags.StringVar(&o.root, "root", node.DefaultRoot, "state folder of the node")
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	flags.StringArrayVar(&o.keys, "key", nil, "public key that the bundle must be signed with; may be repeated")
	o.changes.Add(cmd)
}

// take reads the words of the command line, and the flags that they stand for.
func (o *bundleOptions) take(cmd *cobra.Command, words []string) (err error) {
	o.yes = o.changes.Take(words) || o.yes
	o.verbose, _ = cmd.Flags().GetBool("verbose")
	o.root, err = installers.Root(o.root, o.changes.Folder)
	return err
}

// options are those of an install from the bundle.
func (o *bundleOptions) options(ctx context.Context, a commands) (install.Options, error) {
	binary, err := os.Executable()
	if err != nil {
		return install.Options{}, err
	}
	options := install.Options{Binary: binary, Yes: o.yes, Resume: resumeCommand(os.Args, os.Getenv(resumeVariable)), Adjust: o.changes.Apply, Outro: a.Err}
	if o.verbose {
		options.Output = a.Err
	}
	return o.source.options(ctx, a, o.root, o.keys, options)
}
