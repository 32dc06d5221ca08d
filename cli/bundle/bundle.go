// Package bundle is the commands that make bundles: on this machine, and on a server.
package bundle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/assemble"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/delta"
	"github.com/sealift/sealift/bundle/lean"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/archive"
	"github.com/sealift/sealift/cli/evidence"
	"github.com/sealift/sealift/cli/installers"
	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/store"
)

type bundleOptions struct {
	file     string
	store    string
	out      string
	programs programFlags
	key      string
	signers  []string
	since    string
	from     string // the clusters that are to be upgraded: a version of Kubernetes, or a record
	format   string
	lean     bool
	plain    bool // --lean=false
	patch    bool
	verify   bool
	cache    string
	evidence bool
	split    splitFlags
}

func (a commands) bundleCommand() *cobra.Command {
	var o bundleOptions
	cmd := &cobra.Command{
		Use:   "bundle -f INSTALLER --store URL --out FILE",
		Short: "Assemble the airgap archive of one Installer",
		Long: `Assemble everything that an Installer needs in one archive: the packages of its add-ons with shared bytes only once,
the Installer, a sealift for the nodes, and the scripts that start it (install.sh, join.sh, upgrade.sh and
tasks.sh).

The packages are copied without compressing them again. Packages that kURL built are imported first, as by 'sealift
import'. The same Installer, packages and sealift give the same bytes. A version can be latest, or 1.36.x for the
newest of a line.

With --require-signed, each package must be signed with the private key that belongs to one of the given public
keys. People who can write to the store then cannot decide what --key signs.

With --upgrade-from VERSION, the bundle also has Kubernetes for each minor version between that one and the Installer's:
the newest that the store has. 'sealift upgrade' takes a cluster through them. With the record of a cluster ('sealift
status --record') instead of a version, the bundle also leaves out the files that the cluster has. It upgrades that
cluster, and needs no other bundle there.

With --since, files of an earlier bundle are left out. Installing such a bundle needs both:
sealift install --bundle NEW --base OLD. An upgrade of a cluster that has these files needs the new one alone. With both
flags, --since says which files are left out.

With several platforms, one bundle installs hosts of each: its packages must be for all of them, and it has a sealift for
each. --sealift and --sealift-preflight take the files in any order: the machine in their ELF headers says which is which.

With --patch, a program or an image layer that changed since then is carried as a patch of the earlier one, where that is
smaller. Nodes make the new file from the one that they have, and compare it with its digest before they change
anything. Making a patch takes half a minute for a program of 80 MB, and a few hundred MiB of memory. The cache keeps it.

With --evidence, write a bill of materials down to the packages in image layers beside the bundle, signed with the same key.

With --split, FILE is a folder with parts that fit on media: FAT32, DVDs. Parts may be copied to several disks. With
--parity, parts are added that replace others: of 20 parts with 15%, any 20 of the 23 are enough, and damage within
parts is repaired while they are read. The scripts and the sealift of the nodes lie beside the parts; copy them to
the first disk. 'sealift verify --media' checks parts.

With --lean, the bundle has the layers of images compressed again, with zstd, and of similar programs, such as those of one
Kubernetes, it has one whole and patches that make the others of it. It is smaller, and nodes need a sealift that
knows this format, as the one in the bundle does, and space for the programs that patches make. Images keep their digests.
The cache keeps the layers and patches, so that only the first bundle with a package takes longer. If the bundle of --since
or the cluster of a record has such layers, the bundle has them, too: --lean=false makes it without them.`,
		Example: `  sealift bundle -f installer.yaml --store dist --out cluster.tar.gz
  sealift bundle -f installer.yaml --store file:///srv/packages --out cluster.tar.gz --key site.key -o json
  sealift bundle -f installer.yaml --store dist --out cluster.tar.gz --lean
  sealift bundle -f installer.yaml --store dist --out update.tar.gz --since cluster.tar.gz
  sealift bundle -f installer.yaml --store dist --out update.tar.gz --since cluster.tar.gz --patch
  sealift bundle -f installer.yaml --store dist --out update.tar.gz --upgrade-from 1.34.4
  sealift bundle -f installer.yaml --store dist --out update.tar.gz --upgrade-from RECORD.json
  sealift bundle -f installer.yaml --store dist --out cluster.tar.gz --platform linux/amd64,linux/arm64 \
      --sealift amd64/sealift-node,arm64/sealift-node
  sealift bundle -f installer.yaml --store dist --out cluster --split 4.7GB --parity 10%`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.plain = cmd.Flags().Changed("lean") && !o.lean
			return a.bundle(cmd.Context(), o)
		},
	}
	o.add(cmd)
	return cmd
}

func (o *bundleOptions) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&o.file, "file", "f", "", "the Installer; - for standard input")
	flags.StringVar(&o.store, "store", "", "store with the packages: a folder, its file:// URL, s3://bucket/prefix, oci://registry/repository, or https://host/path")
	flags.StringVar(&o.out, "out", "", "the archive to write; with --split a folder that is empty or does not exist")
	o.programs.add(cmd)
	flags.StringVar(&o.key, "key", "", "private key that signs the bundle's index")
	app.AddSignersFlag(cmd, &o.signers)
	flags.StringVar(&o.since, "since", "", "an earlier bundle whose files to leave out")
	flags.StringVar(&o.from, "upgrade-from", "", "the cluster to upgrade: its version of Kubernetes, or the file with its record")
	flags.BoolVar(&o.lean, "lean", false, "compress the layers of images again, and carry similar programs as patches, for a smaller bundle")
	flags.BoolVar(&o.patch, "patch", false, "with --since or the record of a cluster: carry what changed as patches")
	flags.BoolVar(&o.verify, "verify", true, "verify every byte of the bundle; the install verifies again what it uses")
	flags.BoolVar(&o.evidence, "evidence", false, "also write evidence of what is in the bundle, as 'sealift evidence' does")
	o.split.add(cmd)
	addCacheFlag(flags, &o.cache)
	app.AddOutputFlag(cmd, &o.format)
	for _, name := range []string{"file", "store", "out", "key", "since", "upgrade-from"} {
		_ = cmd.MarkFlagFilename(name)
	}
}

func (a commands) bundle(ctx context.Context, o bundleOptions) (err error) {
	for _, flag := range [][2]string{{"-f", o.file}, {"--store", o.store}, {"--out", o.out}} {
		if flag[1] == "" {
			return app.UsageError("%s is missing; see 'sealift bundle --help'", flag[0])
		}
	}
	if err := errors.Join(o.split.check(), o.programs.check()); err != nil {
		return err
	}
	installer, err := installers.Load(a.In, o.file)
	if err != nil {
		return err
	}
	opened, err := store.Opener{Log: a.Log, CAs: a.CAs}.Open(o.store)
	if err != nil {
		return err
	}
	if o.cache, err = cacheFolder(o.cache); err != nil {
		return err
	}
	from := packagesOf(opened, o.cache)
	if from.Signers, err = app.PublicKeys(o.signers); err != nil {
		return err
	}
	plan, err := a.prepare(ctx, installer, from, o, deflated(o.cache))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plan.Close()) }()
	return a.writeBundle(ctx, plan.Plan, o)
}

// prepared is the plan of a bundle, and the programs in it. Both are open.
type prepared struct {
	*assemble.Plan
	programs programs
}

func (p prepared) Close() error { return errors.Join(p.Plan.Close(), p.programs.close()) }

// prepare plans the bundle of an Installer, according to the flags. spool is that of nodePrograms.
func (a commands) prepare(ctx context.Context, installer *spec.Installer, from packages.Source, o bundleOptions, spool string) (p prepared, err error) {
	if err := installers.CheckTogether(a.Err, o.file, installer); err != nil {
		return p, err
	}
	key, err := a.SigningKey(o.key)
	if err != nil {
		return p, err
	}
	had, err := openSince(o.since)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, had.close()) }()
	runs, err := readCluster(o.from)
	if err != nil {
		return p, err
	}
	if o.evidence && o.since == "" && runs.record != nil {
		return p, app.UsageError("--evidence reads all files, and a bundle for the record of a cluster leaves out those that the cluster has: also name the bundle that is installed there, with --since")
	}
	if installer.AddOns, err = from.Resolve(ctx, installer.AddOns); err != nil {
		return p, err
	}
	steps, err := runs.steps(installer)
	if err != nil {
		return p, err
	}
	if steps, err = from.Resolve(ctx, steps); err != nil {
		return p, err
	}
	if had.since == nil {
		if err := a.has(ctx, &had, runs, from, o.programs.platforms); err != nil {
			return p, err
		}
	}
	if !o.plain && !o.lean && had.since.Lean() {
		who := "the cluster"
		if o.since != "" {
			who = "the earlier bundle"
		}
		fmt.Fprintln(a.Err, who, "has layers that were compressed again, and the bundle gets such layers, too; with --lean=false it does not")
		o.lean = true
	}
	var layers *lean.Spool
	var similar *delta.Spool
	if o.lean {
		layers, similar = lean.NewSpool(deflated(o.cache)), delta.NewSpool(deflated(o.cache))
	}
	patches, err := had.patches(o, runs)
	if err != nil {
		return p, err
	}
	if p.programs, err = a.nodePrograms(ctx, spool, o.programs); err != nil {
		return p, err
	}
	if p.Plan, err = assemble.Prepare(ctx, assemble.Request{
		Installer: installer, Steps: steps, Packages: from, Programs: p.programs, Commands: a.nodes, KeepPreflight: len(o.programs.preflight) > 0,
		Since: had.since, Lean: layers, Patches: patches, Similar: similar, Key: key,
	}); err != nil {
		return p, errors.Join(err, p.programs.close())
	}
	return p, nil
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
	var group errgroup.Group
	group.Go(f.Sync) // the disk also takes time
	group.Go(func() error {
		if err := archive.VerifyHere(ctx); err != nil {
			return unverified(ctx, err)
		}
		return nil
	})
	return group.Wait()
}

// unverified returns the error for a new bundle that was not verified to its end.
func unverified(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("a package is damaged; build and publish it again: %w", err)
}

func (a commands) writeBundle(ctx context.Context, plan *assemble.Plan, o bundleOptions) error {
	write := writeFile
	if o.split.limit > 0 {
		write = writeParts
	}
	if err := write(ctx, plan, o); err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	made, err := archive.Open(ctx, store.Opener{}, o.out)
	if err != nil {
		return err
	}
	defer made.Close()
	if o.evidence {
		if err := a.writeEvidence(ctx, made, o); err != nil {
			return err
		}
	}
	summary, err := archive.Summarize(made, o.out)
	if err != nil {
		return err
	}
	if o.format == "json" {
		return a.PrintJSON(summary)
	}
	size := app.FormatBytes(summary.Size)
	if summary.Parts != nil {
		size += " in " + describeParts(*summary.Parts)
	}
	fmt.Fprintf(a.Out, "bundled %s: %s, %s, index %s\n", o.out, size, app.Counted(len(summary.Packages), "package"), summary.Digest)
	for _, p := range summary.PlatformSizes {
		fmt.Fprintf(a.Out, "for %s: %s, %s for it alone\n", p.Platform, app.FormatBytes(p.Size), app.FormatBytes(p.Alone))
	}
	return nil
}

// writeFile writes the bundle in one piece.
func writeFile(ctx context.Context, plan *assemble.Plan, o bundleOptions) error {
	if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
		return err
	}
	return atomicfile.Fill(o.out, 0o644, func(w *os.File) error {
		if err := plan.Write(ctx, w); err != nil {
			return err
		}
		if !o.verify {
			return nil
		}
		return verifyBundle(ctx, w)
	})
}

// writeEvidence writes evidence beside a bundle. Evidence needs all files, so those that were left out come from the earlier bundle.
func (a commands) writeEvidence(ctx context.Context, made *bundle.Archive, o bundleOptions) error {
	if err := archive.AddBase(made, o.since); err != nil {
		return err
	}
	_, err := evidence.Write(ctx, a.App, made, evidence.Request{Prefix: bundle.Stem(o.out), Key: o.key, Notes: a.Notes(o.format)})
	return err
}
