package node

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/change"
	"github.com/sealift/sealift/cli/installers"
	"github.com/sealift/sealift/installer/install"
)

// bundleOptions are the flags of commands that change a node, or its cluster, to the content of a bundle.
type bundleOptions struct {
	change.Flags
	source  bundleSource
	keys    []string
	root    string
	changes installers.Adjustment
}

// add adds the flags. shows is what --plan shows.
func (o *bundleOptions) add(cmd *cobra.Command, shows string) {
	flags := cmd.Flags()
	o.source.add(cmd)
	addRoot(cmd, &o.root)
	flags.StringArrayVar(&o.keys, "key", nil, "public key that the bundle must be signed with; may be repeated")
	o.Flags.Add(cmd, shows)
	o.changes.Add(cmd)
}

// take reads the words of the command line, and the flags that they stand for.
func (o *bundleOptions) take(words []string) (err error) {
	o.Yes = o.changes.Take(words) || o.Yes
	o.root, err = installers.Root(o.root, o.changes.Folder)
	return err
}

// options are those of an install from the bundle.
func (o *bundleOptions) options(ctx context.Context, a commands) (install.Options, error) {
	binary, err := os.Executable()
	if err != nil {
		return install.Options{}, err
	}
	options := install.Options{Binary: binary, Yes: o.Yes, Resume: resumeCommand(os.Args, os.Getenv(resumeVariable)), Adjust: o.changes.Apply, Outro: a.Err}
	options.Output = a.ProgramOutput()
	return o.source.options(ctx, a, o.root, o.keys, options)
}
