// Package build is the commands that make packages: they check and lock Manifests, build, sign, import and publish.
package build

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/dockerfile"
	"github.com/sealift/sealift/catalog/references"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/diag"
)

type buildOptions struct {
	sources     sources
	out         string
	locked      bool
	perPlatform bool
	key         string
	references  bool
	imageFormat string
	lean        bool
	noReferrers bool
	engine      string
	since       string
	list        bool
	format      string
	cluster     clusterOptions
}

func (a commands) buildCommand() *cobra.Command {
	var o buildOptions
	cmd := &cobra.Command{
		Use:   "build ADDON_DIR...",
		Short: "Build packages from add-on directories",
		Long: `Build the package <name>-<version>.tar.gz of each add-on directory <name>/<version>. It contains everything that the
Manifest names, fetched and verified, and the add-on's own files.

What Manifest.lock lists is taken exactly as locked, and the rest is resolved now. With --locked, there must be no
rest. Files that were fetched before come from the cache. A package that is up to date is not built again.
sealift.yaml configures mirrors and targets. The same input gives the same bytes, with any number of jobs.

The command needs no root. The build machine needs apt-get for Debian-based targets, dnf and rpm for Red Hat-based
targets, and buildah, podman, docker or buildctl for Manifests with dockerout.

With --on kubernetes, the packages are built on a cluster: one Job, with an index for each package. Everything must be
locked. The sources of the add-ons, the files that they need and the packages are in --store. If the command is killed,
the same command goes on. A package that the store has from the same input is not built again.`,
		Example: `  sealift build addons/kubernetes/1.36.3 --out dist
  sealift build addons/*/* --out dist --target debian-12 --jobs 8
  sealift build addons/*/* --out dist --locked --platform linux/amd64,linux/arm64 --per-platform
  sealift build addons/flannel/0.26.7 --out dist --check-images --key release.key
  sealift build addons/*/* --out dist --lean
  sealift build addons/*/* --out dist --changed-since s3://packages/stable
  sealift build addons/*/* --changed-since s3://packages/stable --list-changed -o json | jq -c '[.[].dir]'
  sealift build addons/*/* --on kubernetes --store s3://packages/stable --image registry.example.com/sealift:1.0 --secret s3-key --parallelism 100
  sealift build addons/flannel/0.26.7 --out dist -o json | jq -r .[].sha256`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, dirs []string) error {
			if o.lean {
				o.imageFormat = string(builder.Lean)
			}
			if err := o.cluster.check(o, cmd.Flags().Changed("out")); err != nil {
				return err
			}
			return a.build(cmd.Context(), withoutTemplates(dirs), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.out, "out", ".", "directory for the packages")
	flags.BoolVar(&o.locked, "locked", false, "build only from Manifest.lock, and fail if something is not locked")
	flags.BoolVar(&o.perPlatform, "per-platform", false, "build one package per platform, each in its own directory, such as linux-amd64")
	o.sources.add(flags)
	flags.StringVar(&o.key, "key", "", "private key that signs the packages' indexes")
	_ = cmd.MarkFlagFilename("key")
	flags.BoolVar(&o.references, "check-images", false, "fail if an add-on's YAML needs an image that its Manifest lacks")
	o.imageFormat = string(builder.OCILayout)
	var formats []string
	for _, f := range builder.ImageFormats() {
		formats = append(formats, string(f))
	}
	flags.Var(app.NewChoice(&o.imageFormat, formats), "image-format",
		"how images lie in the package: oci, lean with layers compressed again, or docker-archive for kURL's readers")
	flags.BoolVar(&o.lean, "lean", false, "compress the layers of images again, for a smaller package: --image-format lean")
	cmd.MarkFlagsMutuallyExclusive("lean", "image-format")
	flags.BoolVar(&o.noReferrers, "without-referrers", false, "leave out signatures, SBOMs and attestations that upstream attached to images")
	flags.Var(app.NewChoice(&o.engine, dockerfile.Engines()), "engine",
		"what runs the Dockerfiles of dockerout: "+strings.Join(dockerfile.Engines(), ", ")+" (default: the first of them that is there)")
	flags.StringVar(&o.since, "changed-since", "", "build only add-ons that differ from their package in this store")
	flags.BoolVar(&o.list, "list-changed", false, "with --changed-since: list the add-ons, and build nothing")
	o.cluster.add(flags)
	app.AddOutputFlag(cmd, &o.format)
	return cmd
}

func (a commands) build(ctx context.Context, dirs []string, o buildOptions) error {
	switch {
	case o.list && o.since == "":
		return app.UsageError("--list-changed needs --changed-since")
	case o.since != "" && o.perPlatform:
		return app.UsageError("--changed-since compares one package of each add-on; run it for each --platform instead of with --per-platform")
	}
	settings, err := o.sources.options(a)
	if err != nil {
		return err
	}
	if settings.Key, err = a.SigningKey(o.key); err != nil {
		return err
	}
	store, err := o.sources.cache.open()
	if err != nil {
		return err
	}
	defer o.sources.cache.close(a, store)
	watch := newTransferWatch(a.Err, "fetched")
	settings.Progress, settings.Locked, settings.ImageFormat, settings.Engine = watch, o.locked || o.cluster.On != "", builder.ImageFormat(o.imageFormat), o.engine
	settings.WithoutReferrers = o.noReferrers
	lines, err := o.lines(store, settings)
	if err != nil {
		return app.UsageError("%v", err)
	}
	if o.references {
		if err := a.checkImages(ctx, dirs, lines[0].builder); err != nil {
			return err
		}
	}
	if o.since != "" {
		changed, err := a.changed(ctx, lines[0].builder, o.since, dirs)
		watch.settle()
		if err != nil {
			return err
		}
		if o.list {
			return a.printChanged(changed, o.format)
		}
		dirs = nil
		for _, c := range changed {
			dirs = append(dirs, c.Dir)
		}
	}
	if o.cluster.On != "" {
		return a.buildOnCluster(ctx, dirs, o, lines[0].builder)
	}
	return a.buildAll(ctx, dirs, lines, watch, o.format)
}

// buildAll builds every add-on for every line and reports the packages.
func (a commands) buildAll(ctx context.Context, dirs []string, lines []line, watch transferWatch, format string) error {
	results := []builder.Result{}
	for _, dir := range dirs {
		fmt.Fprintf(a.Err, "building %s\n", dir)
		for _, line := range lines {
			r, err := line.builder.Build(ctx, dir, line.out)
			watch.settle()
			for _, w := range r.Warnings {
				fmt.Fprintln(a.Err, w.Error())
			}
			if err != nil {
				return err
			}
			results = append(results, r)
			if format != "json" {
				a.printBuilt(r)
			}
		}
	}
	if format == "json" {
		return a.PrintJSON(results)
	}
	return nil
}

// line is a builder and where its packages go.
type line struct {
	builder *builder.Builder
	out     string
}

// lines are one for all platforms, or one for each.
func (o buildOptions) lines(store *cache.Cache, settings builder.Options) ([]line, error) {
	if !o.perPlatform {
		b, err := builder.New(store, settings)
		return []line{{builder: b, out: o.out}}, err
	}
	var lines []line
	for _, platform := range settings.Platforms {
		settings.Platforms = []string{platform}
		b, err := builder.New(store, settings)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line{builder: b, out: filepath.Join(o.out, strings.ReplaceAll(platform, "/", "-"))})
	}
	return lines, nil
}

func (a commands) printBuilt(r builder.Result) {
	verb := "built"
	if r.UpToDate {
		verb = "up to date"
	}
	fmt.Fprintf(a.Out, "%s %s: %s, sha256 %s, %s transferred, %s\n", verb, r.Path, app.FormatBytes(r.Size), r.SHA256,
		app.FormatBytes(r.Fetched), time.Duration(r.Seconds*float64(time.Second)).Round(10*time.Millisecond))
}

// checkImages compares the images in the YAML of every add-on with its Manifest before any is built.
func (a commands) checkImages(ctx context.Context, dirs []string, charts references.Charts) error {
	var list diag.List
	for _, dir := range dirs {
		findings, err := references.Check(ctx, dir, charts)
		if err != nil {
			return err
		}
		for _, f := range findings {
			if f.Severity == diag.Warning {
				fmt.Fprintln(a.Err, f.Error())
			} else {
				list.Add(f)
			}
		}
	}
	return list.Err()
}
