package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/change"
	"github.com/sealift/sealift/installer/recovery/snapshot"
	"github.com/sealift/sealift/internal/plaintext"
	"github.com/sealift/sealift/store"
)

func (a commands) snapshotCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Save, check, unpack and prune snapshots of this control plane",
		Long: `Save what this control plane needs to come back after it lost its data: etcd's database, the keys and files of kubeadm in
/etc/kubernetes, the Installer, and with --volumes the local volumes of this host. A snapshot is one encrypted file. It has no images.

'sealift restore' brings a control plane back from a snapshot.`,
		Example: `  sealift snapshot key --out snapshots.key
  sealift snapshot save --key age1…
  sealift snapshot verify --identity snapshots.key
  sealift snapshot prune --keep 7`,
	}
	cmd.AddCommand(a.snapshotSaveCommand(), a.snapshotListCommand(), a.snapshotShowCommand(), a.snapshotVerifyCommand(), a.snapshotUnpackCommand(),
		a.snapshotPruneCommand(), a.snapshotKeyCommand())
	return cmd
}

type snapshotSaveOptions struct {
	root, out, store string
	key, passphrase  string
	format           string
	volumes          bool
}

func (a commands) snapshotSaveCommand() *cobra.Command {
	var o snapshotSaveOptions
	cmd := &cobra.Command{
		Use:   "save",
		Short: "Save a snapshot of this control plane",
		Long: `Save a snapshot of this control plane, as root, while the cluster runs. The file appears under its name only when it is
complete and the digest that etcd sent with its database is right.

A snapshot has every key of the cluster, so it is always encrypted: to a public key (--key), whose private key need not be
on the node, or with a passphrase. The passphrase comes from --passphrase-file, from ` + snapshotPassphrase + `,
or from the terminal.

With --volumes, the snapshot also has the local volumes of this host: folders that PersistentVolumes name. Pods are quiesced while
their volumes are read, if they have Velero's annotations for that: pre.hook.backup.velero.io/command and post.hook.backup.velero.io/command.`,
		Example: `  sealift snapshot save --key age1…
  sealift snapshot save --key age1… --volumes
  sealift snapshot save --key backup.pub --store s3://backups/cluster-1
  sealift snapshot save --passphrase-file /root/passphrase --out /media/usb/cluster-1.snapshot`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.snapshotSave(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.out, "out", "", "file to write, instead of a file in a store")
	flags.StringVar(&o.key, "key", "", "public key of age, or a file with public keys, to encrypt to")
	flags.StringVar(&o.passphrase, "passphrase-file", "", "file with the passphrase to encrypt with")
	addRoot(cmd, &o.root)
	flags.BoolVar(&o.volumes, "volumes", false, "save the local volumes of this host, too")
	addSnapshotStoreFlag(cmd, &o.store)
	cmd.MarkFlagsMutuallyExclusive("out", "store")
	cmd.MarkFlagsMutuallyExclusive("key", "passphrase-file")
	app.AddOutputFlag(cmd, &o.format)
	return cmd
}

func addSnapshotStoreFlag(cmd *cobra.Command, location *string) {
	cmd.Flags().StringVar(location, "store", snapshot.DefaultStore, "store of snapshots: a folder or s3://bucket/prefix")
}

// snapshots returns the place of snapshots at a location.
func (a commands) snapshots(location string) *snapshot.Place {
	return snapshot.At(location, store.Opener{Log: a.Log, CAs: a.CAs})
}

func (a commands) snapshotSave(ctx context.Context, o snapshotSaveOptions) error {
	to, err := a.snapshotRecipients(o.key, o.passphrase)
	if err != nil {
		return err
	}
	result, source := snapshot.Found{File: o.out}, snapshot.Source{Root: o.root, Volumes: o.volumes, Output: a.Err}
	if o.out != "" {
		result.Index, err = source.Save(ctx, o.out, to...)
	} else {
		var kept snapshot.Kept
		result.Index, kept, err = a.snapshots(o.store).Save(ctx, source, to...)
		result.File = kept.File
	}
	if err != nil && !errors.Is(err, snapshot.ErrNotResumed) {
		return err
	}
	printed := a.Print(o.format, result, func() error {
		where := ""
		if o.out == "" {
			where = " in " + o.store
		}
		fmt.Fprintf(a.Out, "saved %s%s: %s\n", result.File, where, contentOf(result.Index))
		a.printLeftOut(result.Index)
		return nil
	})
	return errors.Join(printed, err)
}

// contentOf summarizes the content of a snapshot. The sizes of volumes are known if all of it was read.
func contentOf(index snapshot.Index) string {
	text := fmt.Sprintf("etcd up to revision %d, %s", index.Etcd.Revision, app.Counted(len(index.Files), "file"))
	if len(index.Volumes) == 0 {
		return text
	}
	var size int64
	for _, v := range index.Volumes {
		size += v.Size
	}
	return fmt.Sprintf("%s, %s of %s", text, app.Counted(len(index.Volumes), "volume"), app.FormatBytes(size))
}

func (a commands) printLeftOut(index snapshot.Index) {
	for _, name := range index.LeftOut {
		fmt.Fprintf(a.Out, "left out %s: it is larger than 1 MiB, or no regular file\n", name)
	}
	for _, v := range index.VolumesLeftOut {
		fmt.Fprintf(a.Out, "left out volume %s %s: %s\n", v.Name, v.Claim, v.Why)
	}
	for _, v := range index.Volumes {
		if v.Changed {
			fmt.Fprintf(a.Out, "volume %s %s changed while it was read: files of it may be half old and half new\n", v.Name, v.Claim)
		}
	}
}

func (a commands) snapshotListCommand() *cobra.Command {
	var k snapshotKeys
	var format string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the snapshots of a store, oldest first",
		Long: `List the snapshots of a store, oldest first. This needs no key: a file's name tells the cluster, the node and the time. But anybody who
can write to the store chooses names. With a key, the command reads the beginning of each snapshot, and tells which ones the cluster
signed under that name.`,
		Example: "  sealift snapshot list\n  sealift snapshot list --identity snapshots.key --store s3://backups/cluster-1\n  sealift snapshot list -o json | jq -r '.[-1].file'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f := &snapshot.Finder{Place: a.snapshots(k.store)}
			checked := k.identity != "" || k.passphrase != ""
			if checked {
				var err error
				if f, err = a.finder(k); err != nil {
					return err
				}
			}
			list, err := f.List(cmd.Context())
			if err != nil {
				return err
			}
			if len(list) == 0 && format != "json" {
				fmt.Fprintf(a.Err, "there is no snapshot in %s; save one, or name another store with --store\n", k.store)
			}
			return a.Print(format, list, func() error { return a.printSnapshots(list, checked) })
		},
	}
	k.addFlags(cmd)
	app.AddOutputFlag(cmd, &format)
	return cmd
}

func (a commands) printSnapshots(all []snapshot.Listed, checked bool) error {
	t := plaintext.NewTable(tabwriter.NewWriter(a.Out, 2, 0, 2, ' ', 0))
	columns := "TIME\tCLUSTER\tNODE\tSIZE\tFILE"
	if checked {
		columns = "TIME\tCLUSTER\tNODE\tSIZE\tSIGNED\tFILE"
	}
	t.Println(columns)
	for _, k := range all {
		t.Printf("%s\t%s\t%s\t%s\t", k.Time.Format(time.RFC3339), k.Cluster, k.Node, app.FormatBytes(k.Size))
		if checked {
			t.Printf("%s\t", map[bool]string{true: "yes", false: "no"}[k.Signed != ""])
		}
		t.Printf("%s\n", k.File)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, k := range all {
		if k.Why != "" {
			fmt.Fprintln(a.Err, k.Why)
		}
	}
	return nil
}

func (a commands) snapshotPruneCommand() *cobra.Command {
	var location string
	var keep int
	var flags change.Flags
	cmd := &cobra.Command{
		Use:   "prune --keep N",
		Short: "Remove all but the newest snapshots of a store",
		Long: `Remove snapshots from a store. The newest N of each control plane of each cluster stay, because a snapshot has local
volumes only of the node that saved it. So the last ones of a node that is gone stay; remove them by hand. Other files
of the store stay, too.`,
		Example: "  sealift snapshot prune --keep 7 --plan\n  sealift snapshot prune --keep 7\n  sealift snapshot prune --keep 30 --store s3://backups/cluster-1",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if keep < 1 {
				return app.UsageError("--keep must be at least 1")
			}
			return a.snapshotPrune(cmd.Context(), location, keep, flags)
		},
	}
	cmd.Flags().IntVar(&keep, "keep", 0, "how many snapshots of each control plane stay; at least 1")
	addSnapshotStoreFlag(cmd, &location)
	flags.Add(cmd, "what would be removed")
	return cmd
}

func (a commands) snapshotPrune(ctx context.Context, location string, keep int, flags change.Flags) error {
	place := a.snapshots(location)
	list := func(verb string, work func(context.Context, int) ([]snapshot.Kept, error)) (change.Result, error) {
		all, err := work(ctx, keep)
		if err != nil {
			return change.Result{}, err
		}
		return change.Result{Document: all, Text: func() error {
			for _, k := range all {
				fmt.Fprintln(a.Out, verb+" "+k.File)
			}
			return nil
		}}, nil
	}
	return change.Do(ctx, a.App, flags, change.Work{
		To: "remove snapshots", Question: fmt.Sprintf("Remove all but the newest %d snapshots of each control plane from %s?", keep, location), Unasked: true,
		Plan: func() (change.Result, error) { return list("would remove", place.Surplus) },
		Run:  func(context.Context, *change.Progress) (change.Result, error) { return list("removed", place.Prune) },
		Next: change.Nothing,
	})
}

func (a commands) snapshotKeyCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "key --out FILE",
		Short: "Create a key pair for snapshots",
		Long: `Create a key pair of age, and print the public key. The file with the private key is not encrypted: move it off the nodes
and keep it safe. Without it, nobody can read the snapshots. An existing file is not replaced.`,
		Example: "  sealift snapshot key --out snapshots.key",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if out == "" {
				return app.UsageError("--out must name the file for the private key")
			}
			private, public, err := snapshot.GenerateKey()
			if err != nil {
				return err
			}
			f, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if errors.Is(err, os.ErrExist) {
				return fmt.Errorf("%s exists and is not replaced; remove it or choose another name with --out", out)
			}
			if err != nil {
				return err
			}
			_, err = f.Write(private)
			if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
				return err
			}
			fmt.Fprintln(a.Out, public)
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "file for the private key")
	_ = cmd.MarkFlagFilename("out")
	return cmd
}
