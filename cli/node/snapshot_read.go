package node

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/snapshot"
	"github.com/sealift/sealift/internal/plaintext"
)

// snapshotPassphrase has the passphrase of a snapshot.
const snapshotPassphrase = "SEALIFT_SNAPSHOT_PASSPHRASE"

// snapshotRecipients says to what a new snapshot is encrypted.
func (a commands) snapshotRecipients(key, passphraseFile string) ([]age.Recipient, error) {
	if key != "" {
		return snapshot.Recipients(key)
	}
	if _, given := os.LookupEnv(snapshotPassphrase); passphraseFile == "" && !given && !a.CanAsk() {
		return nil, app.UsageError("a snapshot has every key of the cluster and must be encrypted: give --key or --passphrase-file, or set %s", snapshotPassphrase)
	}
	passphrase, err := a.snapshotPassphrase(passphraseFile, true)
	if err != nil {
		return nil, err
	}
	return snapshot.Lock(passphrase)
}

func (a commands) snapshotPassphrase(file string, isNew bool) ([]byte, error) {
	if file != "" {
		return snapshot.PassphraseFile(file)
	}
	return a.Passphrase(snapshotPassphrase, "passphrase of the snapshot: ", isNew)
}

// snapshotKeys has the flags of commands that decrypt a snapshot.
type snapshotKeys struct {
	store, identity, passphrase string
	format                      string
}

func (k *snapshotKeys) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&k.identity, "identity", "", "file with the private key")
	cmd.Flags().StringVar(&k.passphrase, "passphrase-file", "", "file with the passphrase")
	addSnapshotStoreFlag(cmd, &k.store)
	for _, name := range []string{"identity", "passphrase-file"} {
		_ = cmd.MarkFlagFilename(name)
	}
	app.AddOutputFlag(cmd, &k.format)
}

// identities returns what opens a snapshot that begins with these bytes.
func (a commands) identities(k snapshotKeys, head []byte) ([]age.Identity, error) {
	if !snapshot.WantsPassphrase(head) {
		if k.identity == "" {
			return nil, app.UsageError("the snapshot is not encrypted with a passphrase; name the file with the private key: --identity FILE")
		}
		return snapshot.Identities(k.identity)
	}
	if k.identity != "" {
		return nil, app.UsageError("the snapshot is encrypted with a passphrase, not to a key; give --passphrase-file instead of --identity")
	}
	passphrase, err := a.snapshotPassphrase(k.passphrase, false)
	if err != nil {
		return nil, err
	}
	return snapshot.Unlock(passphrase)
}

// readSnapshot finds a snapshot, a file or one of the store, and reads it. Without an argument it is the newest of the store.
func (a commands) readSnapshot(cmd *cobra.Command, args []string, k snapshotKeys, read func(io.Reader, ...age.Identity) (snapshot.Index, error)) (saved, error) {
	if err := notBoth(cmd, "identity", "passphrase-file"); err != nil {
		return saved{}, err
	}
	content, name, err := a.openSnapshot(cmd.Context(), strings.Join(args, ""), k.store)
	if err != nil {
		return saved{}, err
	}
	defer content.Close()
	buffered := bufio.NewReaderSize(content, 1<<16)
	head, err := buffered.Peek(snapshot.HeadSize)
	if err != nil {
		return saved{}, fmt.Errorf("%s is no snapshot: %w", name, err)
	}
	if !snapshot.IsEncrypted(head) {
		return saved{}, fmt.Errorf("%s is no snapshot: 'sealift snapshot save' makes files that are encrypted by age", name)
	}
	keys, err := a.identities(k, head)
	if err != nil {
		return saved{}, err
	}
	index, err := read(buffered, keys...)
	if err != nil {
		return saved{}, fmt.Errorf("%s: %w", name, err)
	}
	return saved{name, index}, nil
}

// openSnapshot opens a snapshot by its name: a file, one of the store, or the newest of the store if the name is empty. It returns the
// name with which the same one opens again.
func (a commands) openSnapshot(ctx context.Context, name, location string) (content io.ReadCloser, found string, err error) {
	if isPath(name) {
		content, err = os.Open(name)
		return content, name, forRoot(err)
	}
	content, kept, err := a.snapshots(location).Open(ctx, name)
	return content, kept.File, forRoot(err)
}

func (a commands) snapshotShowCommand() *cobra.Command {
	var k snapshotKeys
	cmd := &cobra.Command{
		Use:   "show [FILE|NAME]",
		Short: "Show what a snapshot has",
		Long: `Show what a snapshot says of itself: its cluster, its time, the version of Kubernetes, etcd's revision and its files. The
argument is a file, or the name of a snapshot in the store. Without one, the command shows the newest of the store.

The command reads only the beginning. Use 'sealift snapshot verify' to check all of it.`,
		Example: "  sealift snapshot show --identity snapshots.key\n  sealift snapshot show /media/usb/cluster-1.snapshot -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := a.readSnapshot(cmd, args, k, snapshot.ReadIndex)
			if err != nil {
				return err
			}
			if k.format == "json" {
				return a.PrintJSON(found)
			}
			return a.printSnapshot(found)
		},
	}
	k.addFlags(cmd)
	return cmd
}

func (a commands) printSnapshot(s saved) error {
	t := plaintext.NewTable(tabwriter.NewWriter(a.Out, 2, 0, 2, ' ', 0))
	t.Printf("snapshot\t%s\ntime\t%s\nnode\t%s\ncluster\t%s\nkubernetes\t%s\n", s.File, s.Time.Format(time.RFC3339), s.Node, s.Cluster, s.Kubernetes)
	t.Printf("etcd\tup to revision %d, %s\n", s.Etcd.Revision, app.FormatBytes(s.Etcd.Size))
	t.Println("\nFILE\tMODE\tSIZE")
	for _, f := range s.Files {
		t.Printf("/%s\t%04o\t%s\n", f.Name, f.Mode, app.FormatBytes(f.Size))
	}
	if len(s.Volumes) > 0 {
		t.Println("\nVOLUME\tCLAIM\tFOLDER")
		for _, v := range s.Volumes {
			t.Printf("%s\t%s\t%s\n", v.Name, v.Claim, v.Path)
		}
	}
	err := t.Flush()
	a.printLeftOut(s.Index)
	return err
}

func (a commands) snapshotVerifyCommand() *cobra.Command {
	var k snapshotKeys
	cmd := &cobra.Command{
		Use:   "verify [FILE|NAME]",
		Short: "Check every byte of a snapshot",
		Long: `Decrypt a whole snapshot, and compare its files and etcd's database with their digests. Nothing is written. The argument is
a file, or the name of a snapshot in the store. Without one, the command checks the newest of the store.`,
		Example: "  sealift snapshot verify --identity snapshots.key\n  sealift snapshot verify /media/usb/cluster-1.snapshot --passphrase-file /root/passphrase",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := a.readSnapshot(cmd, args, k, snapshot.Verify)
			if err != nil {
				return err
			}
			if k.format == "json" {
				return a.PrintJSON(found)
			}
			fmt.Fprintf(a.Out, "%s is whole: %s of %s, %s\n", found.File, found.Node, found.Time.Format(time.RFC3339), contentOf(found.Index))
			return nil
		},
	}
	k.addFlags(cmd)
	return cmd
}

func (a commands) snapshotUnpackCommand() *cobra.Command {
	var k snapshotKeys
	var out string
	cmd := &cobra.Command{
		Use:   "unpack [FILE|NAME] --out DIR",
		Short: "Verify a snapshot and write its files into a new folder",
		Long: `Check a whole snapshot as 'sealift snapshot verify' does, and write its files and etcd's database into a new folder. The
folder appears only when everything in it is right. It has every key of the cluster, unencrypted: remove it when you are
done. 'sealift restore' does not need it.`,
		Example: "  sealift snapshot unpack --identity snapshots.key --out /root/unpacked",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return app.UsageError("--out must name the folder to write")
			}
			found, err := a.readSnapshot(cmd, args, k, func(r io.Reader, keys ...age.Identity) (snapshot.Index, error) {
				return snapshot.Unpack(r, out, keys...)
			})
			if err != nil {
				return err
			}
			if k.format == "json" {
				return a.PrintJSON(found)
			}
			fmt.Fprintf(a.Out, "%s is whole; its files are in %s\n", found.File, out)
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "folder to write; it must not exist")
	k.addFlags(cmd)
	return cmd
}
