package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/recovery/snapshot"
	"github.com/sealift/sealift/internal/plaintext"
	"github.com/sealift/sealift/internal/regularfile"
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
	caHashes                    []string
	unsigned                    bool
	format                      string
}

func (k *snapshotKeys) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&k.identity, "identity", "", "file with the private key")
	cmd.Flags().StringVar(&k.passphrase, "passphrase-file", "", "file with the passphrase")
	cmd.Flags().StringSliceVar(&k.caHashes, "ca-hash", nil, "hash of the CA of the cluster that made the snapshot, as join commands have it (default: that of this host)")
	cmd.Flags().BoolVar(&k.unsigned, "allow-unsigned", false, "take a snapshot without a signature, which an older sealift made")
	addSnapshotStoreFlag(cmd, &k.store)
	for _, name := range []string{"identity", "passphrase-file"} {
		_ = cmd.MarkFlagFilename(name)
	}
	app.AddOutputFlag(cmd, &k.format)
}

// trust returns whose snapshots are taken: those of the clusters that were named, or else of the cluster of this host.
func (k snapshotKeys) trust() (snapshot.Trust, error) {
	trust := snapshot.Trust{Unsigned: k.unsigned}
	for _, hash := range k.caHashes {
		if _, err := identity.ParseCAHash(hash); err != nil {
			return trust, app.UsageError("--ca-hash: %v", err)
		}
		trust.Clusters = append(trust.Clusters, strings.ToLower(hash))
	}
	if len(trust.Clusters) > 0 {
		return trust, nil
	}
	all, _, err := cluster.KnownCAs("")
	for _, ca := range all {
		trust.Clusters = append(trust.Clusters, identity.CAHash(ca))
	}
	return trust, forRoot(err)
}

// snapshotOpener opens snapshots: files, or those of a store.
type snapshotOpener struct {
	commands
	keys  snapshotKeys
	trust snapshot.Trust

	passphrase []age.Identity // once it was asked for
}

func (a commands) snapshotOpener(cmd *cobra.Command, k snapshotKeys) (*snapshotOpener, error) {
	if err := notBoth(cmd, "identity", "passphrase-file"); err != nil {
		return nil, err
	}
	trust, err := k.trust()
	return &snapshotOpener{commands: a, keys: k, trust: trust}, err
}

// identities returns what opens a snapshot that begins with these bytes.
func (o *snapshotOpener) identities(head []byte) ([]age.Identity, error) {
	if !snapshot.WantsPassphrase(head) {
		if o.keys.identity == "" {
			return nil, app.UsageError("the snapshot is not encrypted with a passphrase; name the file with the private key: --identity FILE")
		}
		return snapshot.Identities(o.keys.identity)
	}
	if o.keys.identity != "" {
		return nil, app.UsageError("the snapshot is encrypted with a passphrase, not to a key; give --passphrase-file instead of --identity")
	}
	if o.passphrase == nil {
		passphrase, err := o.snapshotPassphrase(o.keys.passphrase, false)
		if err != nil {
			return nil, err
		}
		if o.passphrase, err = snapshot.Unlock(passphrase); err != nil {
			return nil, err
		}
	}
	return o.passphrase, nil
}

// readFunc reads a snapshot.
type readFunc func(r snapshot.Reader, from io.Reader) (snapshot.Index, error)

// readIndex is a readFunc of the beginning alone.
func readIndex(r snapshot.Reader, from io.Reader) (snapshot.Index, error) { return r.Index(from) }

// read reads what may be a snapshot, called name. A name of the store's kind has to be that of the index.
func (o *snapshotOpener) read(from io.Reader, name string, read readFunc) (snapshot.Index, error) {
	buffered := bufio.NewReaderSize(from, 1<<16)
	head, err := buffered.Peek(snapshot.HeadSize)
	if err != nil {
		return snapshot.Index{}, fmt.Errorf("%s is no snapshot: %w", name, err)
	}
	if !snapshot.IsEncrypted(head) {
		return snapshot.Index{}, fmt.Errorf("%s is no snapshot: 'sealift snapshot save' makes files that are encrypted by age", name)
	}
	r := snapshot.Reader{Trust: o.trust}
	if r.Keys, err = o.identities(head); err != nil {
		return snapshot.Index{}, err
	}
	r.Name, _ = snapshot.ParseName(filepath.Base(name))
	index, err := read(r, buffered)
	if err != nil {
		return index, fmt.Errorf("%s: %w", name, err)
	}
	return index, nil
}

// readNamed reads a snapshot by its name.
func (o *snapshotOpener) readNamed(ctx context.Context, name string, read readFunc) (saved, error) {
	content, err := o.openSnapshot(ctx, name, o.keys.store)
	if err != nil {
		return saved{}, err
	}
	index, err := o.read(content, name, read)
	return saved{name, index}, errors.Join(err, content.Close())
}

// find returns the name of the newest snapshot of the store that can be trusted, and tells of those that cannot.
func (o *snapshotOpener) find(ctx context.Context) (string, error) {
	newest, refused, err := o.snapshots(o.keys.store).Newest(ctx, func(from io.Reader, k snapshot.Kept) error {
		_, err := o.read(from, k.File, readIndex)
		var unknown *snapshot.UnknownClusterError
		if errors.As(err, &unknown) && len(unknown.Trusted) == 0 && o.CanAsk() {
			return nil // readOrAsk asks
		}
		return err
	})
	for i, r := range refused {
		if i == namedObjects {
			fmt.Fprintf(o.Err, "and %d more were passed over\n", len(refused)-i)
			break
		}
		fmt.Fprintf(o.Err, "passed over %v\n", r.Err)
	}
	return newest.File, forRoot(err)
}

// readOrAsk reads a snapshot by its name. On a host that knows no cluster, it asks somebody at a terminal about the one that signed.
func (o *snapshotOpener) readOrAsk(ctx context.Context, name string, read readFunc) (saved, error) {
	found, err := o.readNamed(ctx, name, read)
	if err == nil && !found.Signed() {
		fmt.Fprintf(o.Err, "warning: %s has format %d, without a signature: anybody with the public key can have made it\n", name, found.Format)
	}
	var unknown *snapshot.UnknownClusterError
	if !errors.As(err, &unknown) || len(unknown.Trusted) > 0 || !o.CanAsk() {
		return found, err
	}
	fmt.Fprintf(o.Err, "%s: %s signed it at %s, a control plane of the cluster with the CA\n  %s\n", name, unknown.Index.Node, unknown.Index.Time.Format(time.RFC3339), unknown.Cluster)
	if !o.Confirm("This host knows no cluster. Do the join commands of your cluster have that hash?") {
		return found, err
	}
	o.trust.Clusters = []string{unknown.Cluster}
	return o.readNamed(ctx, name, read)
}

// readSnapshot finds a snapshot, a file or one of the store, and reads it. Without an argument it is the newest of the store.
func (o *snapshotOpener) readSnapshot(ctx context.Context, args []string, read readFunc) (saved, error) {
	name := strings.Join(args, "")
	if name == "" {
		var err error
		if name, err = o.find(ctx); err != nil {
			return saved{}, err
		}
	}
	return o.readOrAsk(ctx, name, read)
}

// openSnapshot opens a snapshot by its name: a file, or one of the store.
func (a commands) openSnapshot(ctx context.Context, name, location string) (content io.ReadCloser, err error) {
	if isPath(name) {
		if content, err = regularfile.Open(name); errors.Is(err, regularfile.ErrNot) {
			err = fmt.Errorf("%s is no snapshot: %w", name, err)
		}
		return content, forRoot(err)
	}
	content, _, err = a.snapshots(location).Open(ctx, name)
	return content, forRoot(err)
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
			o, err := a.snapshotOpener(cmd, k)
			if err != nil {
				return err
			}
			found, err := o.readSnapshot(cmd.Context(), args, readIndex)
			if err != nil && (!errors.Is(err, snapshot.ErrUntrusted) || found.Format == 0) {
				return err
			}
			s := shown{saved: found, Trusted: err == nil}
			if err != nil {
				s.Why = err.Error()
			}
			if k.format == "json" {
				return a.PrintJSON(s)
			}
			return a.printSnapshot(s)
		},
	}
	k.addFlags(cmd)
	return cmd
}

// shown is what 'snapshot show' prints.
type shown struct {
	saved
	Trusted bool   `json:"trusted"`
	Why     string `json:"untrusted,omitempty"` // why it is not trusted
}

func (a commands) printSnapshot(s shown) error {
	t := plaintext.NewTable(tabwriter.NewWriter(a.Out, 2, 0, 2, ' ', 0))
	t.Printf("snapshot\t%s\ntime\t%s\nnode\t%s\ncluster\t%s\nkubernetes\t%s\n", s.File, s.Time.Format(time.RFC3339), s.Node, s.Cluster, s.Kubernetes)
	if s.Trusted {
		t.Printf("signed\t%s\n", signedBy(s.Index))
	} else {
		t.Printf("untrusted\t%s\n", s.Why)
	}
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
			o, err := a.snapshotOpener(cmd, k)
			if err != nil {
				return err
			}
			found, err := o.readSnapshot(cmd.Context(), args, func(r snapshot.Reader, from io.Reader) (snapshot.Index, error) { return r.Verify(from) })
			if err != nil {
				return err
			}
			if k.format == "json" {
				return a.PrintJSON(found)
			}
			fmt.Fprintf(a.Out, "%s is whole: %s of %s, %s, %s\n", found.File, found.Node, found.Time.Format(time.RFC3339), contentOf(found.Index), signedBy(found.Index))
			return nil
		},
	}
	k.addFlags(cmd)
	return cmd
}

// signedBy tells who signed a snapshot that was checked.
func signedBy(index snapshot.Index) string {
	if !index.Signed() {
		return "not signed"
	}
	return "signed by the cluster " + index.Cluster
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
			o, err := a.snapshotOpener(cmd, k)
			if err != nil {
				return err
			}
			found, err := o.readSnapshot(cmd.Context(), args, func(r snapshot.Reader, from io.Reader) (snapshot.Index, error) { return r.Unpack(from, out) })
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
