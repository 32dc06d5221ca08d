package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/config"
	"github.com/sealift/sealift/catalog/references"
	"github.com/sealift/sealift/diag"
)

type buildOptions struct {
	out        string
	targets    []string
	platforms  []string
	jobs       int
	cacheDir   string
	config     string
	key        string
	references bool
	format     string
}

func (a *app) buildCommand() *cobra.Command {
	var o buildOptions
	cmd := &cobra.Command{
		Use:   "build ADDON_DIR...",
		Short: "Build packages from add-on directories",
		Long: `Build the package <name>-<version>.tar.gz of each add-on directory <name>/<version>: everything that its
Manifest names, fetched and verified, with the add-on's own files.

What was fetched before is taken from the cache. Mirrors and targets are read from sealift.yaml. The same input
gives the same bytes, however many jobs there are. No root and no container engine is needed; packages of
Debian hosts need apt-get on the machine that builds.`,
		Example: `  sealift build addons/kubernetes/1.36.3 --out dist
  sealift build addons/*/* --out dist --target debian-12 --jobs 8
  sealift build addons/flannel/0.26.7 --out dist --check-images --key release.key
  sealift build addons/flannel/0.26.7 --out dist -o json | jq -r .[].sha256`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, dirs []string) error {
			return a.build(cmd.Context(), dirs, o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.out, "out", ".", "directory that takes the packages")
	flags.StringSliceVar(&o.targets, "target", nil, "operating systems to carry packages for (default: all that are known)")
	flags.StringSliceVar(&o.platforms, "platform", []string{builder.DefaultPlatform}, "platforms to carry images for")
	flags.IntVar(&o.jobs, "jobs", 0, "transfers at once (default: one for each CPU, at least 4)")
	flags.StringVar(&o.cacheDir, "cache", "", "directory that keeps what was fetched (default: sealift in the user's cache directory)")
	flags.StringVar(&o.config, "config", "", "configuration file (default: sealift.yaml of the working directory)")
	flags.StringVar(&o.key, "key", "", "private key that signs the packages' indexes")
	flags.BoolVar(&o.references, "check-images", false, "refuse add-ons whose YAML needs an image that their Manifest lacks")
	addOutputFlag(cmd, &o.format)
	return cmd
}

func (a *app) build(ctx context.Context, dirs []string, o buildOptions) error {
	if o.jobs < 0 {
		return usageError("--jobs must not be negative")
	}
	if o.references {
		if err := a.checkImages(dirs); err != nil {
			return err
		}
	}
	if o.cacheDir == "" {
		dir, err := cache.DefaultDir()
		if err != nil {
			return err
		}
		o.cacheDir = dir
	}
	store, err := cache.Open(o.cacheDir)
	if err != nil {
		return err
	}
	settings, err := config.Load(o.config)
	if err != nil {
		return err
	}
	key, err := a.signingKey(o.key)
	if err != nil {
		return err
	}
	watch := newTransferWatch(a.errOut, "fetched")
	b, err := builder.New(store, builder.Options{
		Config: settings, Targets: o.targets, Platforms: o.platforms, Jobs: o.jobs, Progress: watch, Log: a.log, Key: key,
	})
	if err != nil {
		return usageError("%v", err)
	}
	results := []builder.Result{}
	for _, dir := range dirs {
		fmt.Fprintf(a.errOut, "building %s\n", dir)
		r, err := b.Build(ctx, dir, o.out)
		watch.settle()
		for _, w := range r.Warnings {
			fmt.Fprintln(a.errOut, w.Error())
		}
		if err != nil {
			return err
		}
		results = append(results, r)
		if o.format != "json" {
			fmt.Fprintf(a.out, "built %s: %s, sha256 %s, %s transferred, %s\n", r.Path, formatBytes(r.Size), r.SHA256,
				formatBytes(r.Fetched), time.Duration(r.Seconds*float64(time.Second)).Round(10*time.Millisecond))
		}
	}
	if o.format == "json" {
		return a.printJSON(results)
	}
	return nil
}

// checkImages holds the YAML of every add-on against its Manifest before any is built.
func (a *app) checkImages(dirs []string) error {
	var list diag.List
	for _, dir := range dirs {
		findings, err := references.Check(dir)
		if err != nil {
			return err
		}
		for _, f := range findings {
			if f.Severity == diag.Warning {
				fmt.Fprintln(a.errOut, f.Error())
			} else {
				list.Add(f)
			}
		}
	}
	return list.Err()
}
