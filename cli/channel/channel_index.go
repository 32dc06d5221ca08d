package channel

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/channel"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/store"
)

type channelIndexOptions struct {
	store    string
	name     string
	out      string
	absolute bool
}

func (a commands) channelIndexCommand() *cobra.Command {
	var o channelIndexOptions
	cmd := &cobra.Command{
		Use:   "index --store URL",
		Short: "Write an index of the packages in a store",
		Long: `Write an Addons index of the packages that were published to a store, so that one store can serve both installers
and channels. Put the index beside the packages, because it names them by relative paths. With --absolute, it can be
anywhere.

The manifestHash of an entry is the digest of the package's own index, so that every file is verified when it is
used. A channel applies the kustomization of a package. If a package's install.sh does more than that, the package
is left out and named on standard error.`,
		Example: `  sealift channel index --store /srv/packages --out /srv/packages/addons.yaml
  sealift channel index --store s3://packages/stable --absolute > addons.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.channelIndex(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.store, "store", "", "the store: a folder, its file:// URL, s3://bucket/prefix or https://host/path")
	flags.StringVar(&o.name, "name", "packages", "name of the index")
	flags.StringVar(&o.out, "out", "-", "file to write, - for standard output")
	flags.BoolVar(&o.absolute, "absolute", false, "name packages by their full URL")
	return cmd
}

func (a commands) channelIndex(ctx context.Context, o channelIndexOptions) error {
	if o.store == "" {
		return app.UsageError("--store is missing; see 'sealift channel index --help'")
	}
	if u, err := url.Parse(o.store); err == nil && u.Scheme == "oci" {
		return app.UsageError("--store: channels read no packages of a container registry; publish them to a folder, s3:// or https:// as well, and index that")
	}
	packages, err := store.Opener{Log: a.Log, CAs: a.CAs}.Open(o.store)
	if err != nil {
		return err
	}
	var base *url.URL
	if o.absolute {
		if base, err = channel.ParseFile(o.store); err != nil {
			return err
		}
	}
	index, left, err := channel.IndexPackages(ctx, packages, o.name, base)
	if err != nil {
		return fmt.Errorf("index the store: %w", err)
	}
	for _, p := range left {
		fmt.Fprintf(a.Err, "left out %s %s: %s\n", p.Name, p.Version, p.Reason)
	}
	if len(index.Entries)+len(left) == 0 {
		fmt.Fprintf(a.Err, "the index is empty: no package was published to %s\n", o.store)
	}
	data, err := index.Marshal()
	if err != nil {
		return err
	}
	if o.out == "-" {
		_, err = a.Out.Write(data)
		return err
	}
	return atomicfile.Write(o.out, data)
}

type channelBuildOptions struct {
	file string
	out  string
}

func (a commands) channelBuildCommand() *cobra.Command {
	var o channelBuildOptions
	cmd := &cobra.Command{
		Use:   "build -f FILE --out DIR",
		Short: "Label and hash the manifests of an index for serving",
		Long: `Read an index, and write it again with its manifests, as kOps does for the add-ons of its clusters. Every object
gets the labels of its add-on. Every entry gets the hash of its manifest, and rules that prune by these labels
unless it has its own. A new version then deletes the objects that it no longer contains.`,
		Example: `  sealift channel build -f addons.yaml --out channel
  sealift channel plan -f channel/addons.yaml --kubernetes-version v1.36.3`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.channelBuild(cmd.Context(), o) },
	}
	cmd.Flags().StringVarP(&o.file, "filename", "f", "", "index to read, at a path or a URL")
	cmd.Flags().StringVar(&o.out, "out", "", "directory to write addons.yaml and the manifests to")
	return cmd
}

func (a commands) channelBuild(ctx context.Context, o channelBuildOptions) error {
	if o.file == "" || o.out == "" {
		return app.UsageError("-f and --out are required; see 'sealift channel build --help'")
	}
	at, err := channel.ParseFile(o.file)
	if err != nil {
		return err
	}
	source := channel.Source{Log: a.Log, CAs: a.CAs}
	index, err := source.Index(ctx, at, o.file)
	if err != nil {
		return err
	}
	built, err := channel.Build(ctx, source, index)
	if err != nil {
		return err
	}
	for name, data := range built.Manifests {
		file := filepath.Join(o.out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := atomicfile.Write(file, data); err != nil {
			return err
		}
	}
	data, err := built.Index.Marshal()
	if err != nil {
		return err
	}
	// Last, so that an index never names missing content.
	if err := atomicfile.Write(filepath.Join(o.out, "addons.yaml"), data); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "%s: %d entries\n", filepath.Join(o.out, "addons.yaml"), len(built.Index.Entries))
	return err
}
