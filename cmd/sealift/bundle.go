package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/atomicfile"
	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/server/airgap"
	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/store"
)

type bundleOptions struct {
	file     string
	store    string
	out      string
	binary   string
	platform string
	key      string
	format   string
	verify   bool
}

func (a *app) bundleCommand() *cobra.Command {
	var o bundleOptions
	cmd := &cobra.Command{
		Use:   "bundle -f INSTALLER --store URL --out FILE",
		Short: "Assemble the airgap archive of one Installer",
		Long: `Assemble everything that an Installer needs into one archive: the packages of its add-ons, each byte once, the
Installer itself, this sealift, and an install.sh that starts it.

The packages are copied as they are, nothing is compressed again. The same Installer, packages and sealift give
the same bytes.`,
		Example: `  sealift bundle -f installer.yaml --store dist --out cluster.tar.gz
  sealift bundle -f installer.yaml --store file:///srv/packages --out cluster.tar.gz --key site.key -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.bundle(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.file, "file", "f", "", "the Installer")
	flags.StringVar(&o.store, "store", "", "where the packages are: a folder, its file:// URL, s3://bucket/prefix, or https://host/path")
	flags.StringVar(&o.out, "out", "", "the archive to write")
	flags.StringVar(&o.binary, "sealift", "", "the sealift for the nodes (default: this one)")
	flags.StringVar(&o.platform, "platform", runtime.GOOS+"/"+runtime.GOARCH, "the platform of the nodes, and of --sealift")
	flags.StringVar(&o.key, "key", "", "private key that signs the bundle's index")
	flags.BoolVar(&o.verify, "verify", true, "check every byte of the bundle against its index; the install checks again what it uses")
	addOutputFlag(cmd, &o.format)
	for _, name := range []string{"file", "store", "out", "key"} {
		_ = cmd.MarkFlagFilename(name)
	}
	return cmd
}

func (a *app) bundle(ctx context.Context, o bundleOptions) (err error) {
	for name, value := range map[string]string{"-f": o.file, "--store": o.store, "--out": o.out} {
		if value == "" {
			return usageError("%s is missing; see 'sealift bundle --help'", name)
		}
	}
	installer, err := spec.Load(o.file)
	if err != nil {
		return err
	}
	packages, err := store.Open(o.store)
	if err != nil {
		return err
	}
	key, err := a.signingKey(o.key)
	if err != nil {
		return err
	}
	if o.binary == "" {
		if o.binary, err = os.Executable(); err != nil {
			return err
		}
	}
	spool, err := cache.DefaultDir()
	if err != nil {
		return err
	}
	plan, err := airgap.Prepare(ctx, airgap.Request{
		Installer: installer, Store: packages, Binary: o.binary, Platform: o.platform, Spool: filepath.Join(spool, "deflated"), Key: key,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plan.Close()) }()
	return a.writeBundle(ctx, plan, o)
}

// verifyBundle finds damage in packages here, where they can still be built again.
func verifyBundle(ctx context.Context, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	archive, err := bundle.NewArchive(f, info.Size())
	if err != nil {
		return err
	}
	if err := archive.Verify(ctx); err != nil {
		return fmt.Errorf("a package is damaged; build and publish it again: %w", err)
	}
	return nil
}

func (a *app) writeBundle(ctx context.Context, plan *airgap.Plan, o bundleOptions) error {
	if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
		return err
	}
	if err := atomicfile.Fill(o.out, 0o644, func(w *os.File) error {
		if _, err := plan.Write(ctx, w); err != nil {
			return err
		}
		if !o.verify {
			return nil
		}
		return verifyBundle(ctx, w)
	}); err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	archive, err := bundle.Open(o.out)
	if err != nil {
		return err
	}
	defer archive.Close()
	summary, err := summarize(archive, o.out)
	if err != nil {
		return err
	}
	if o.format == "json" {
		return a.printJSON(summary)
	}
	fmt.Fprintf(a.out, "bundled %s: %s, %d packages, index %s\n", o.out, formatBytes(summary.Size), len(summary.Packages), summary.Digest)
	return nil
}
