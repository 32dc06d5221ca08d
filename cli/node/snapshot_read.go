package node

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/change"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/recovery/snapshot"
	"github.com/sealift/sealift/internal/plaintext"
)

// snapshotPassphrase has the passphrase of a snapshot.
const snapshotPassphrase = "SEALIFT_SNAPSHOT_PASSPHRASE"

// snapshotRecipients returns the recipients of a new snapshot's encryption.
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
	cmd.MarkFlagsMutuallyExclusive("identity", "passphrase-file")
}

// trust returns the clusters whose snapshots are accepted: the named ones, or else the one of this host.
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
	return trust, err
}

// finder returns what reads snapshots with the keys and the trust of the flags.
func (a commands) finder(k snapshotKeys) (*snapshot.Finder, error) {
	trust, err := k.trust()
	if err != nil {
		return nil, err
	}
	f := &snapshot.Finder{Place: a.snapshots(k.store), Trust: trust, Note: func(line string) { fmt.Fprintln(a.Err, line) }}
	var asked []age.Identity // of the passphrase
	f.Keys = func(head []byte) (_ []age.Identity, err error) {
		if !snapshot.WantsPassphrase(head) || k.identity != "" {
			return k.identities(head)
		}
		if asked == nil {
			asked, err = a.unlock(k.passphrase)
		}
		return asked, err
	}
	if a.CanAsk() {
		f.Accept = a.acceptSigner
	}
	return f, nil
}

// identities reads the file with the private key, which a snapshot that begins with head must need.
func (k snapshotKeys) identities(head []byte) ([]age.Identity, error) {
	switch {
	case snapshot.WantsPassphrase(head):
		return nil, app.UsageError("the snapshot is encrypted with a passphrase, not to a key; give --passphrase-file instead of --identity")
	case k.identity == "":
		return nil, app.UsageError("the snapshot is not encrypted with a passphrase; name the file with the private key: --identity FILE")
	}
	return snapshot.Identities(k.identity)
}

func (a commands) unlock(passphraseFile string) ([]age.Identity, error) {
	passphrase, err := a.snapshotPassphrase(passphraseFile, false)
	if err != nil {
		return nil, err
	}
	return snapshot.Unlock(passphrase)
}

// acceptSigner asks somebody at a terminal of a host that knows no cluster about the one that signed a snapshot.
func (a commands) acceptSigner(name string, signer *snapshot.UnknownClusterError) bool {
	fmt.Fprintf(a.Err, "%s: %s signed it at %s, a control plane of the cluster with the CA\n  %s\n", name, signer.Index.Node, signer.Index.Time.Format(time.RFC3339), signer.Cluster)
	return a.Confirm("This host knows no cluster. Do the join commands of your cluster have that hash?")
}

func (a commands) snapshotShowCommand() *cobra.Command {
	var k snapshotKeys
	var format string
	cmd := &cobra.Command{
		Use:   "show [FILE|NAME]",
		Short: "Show what a snapshot has",
		Long: `Show what a snapshot says of itself: its cluster, its time, the version of Kubernetes, etcd's revision and its files. The
argument is a file, or the name of a snapshot in the store. Without one, the command shows the newest of the store.

The command reads only the beginning. Use 'sealift snapshot verify' to check all of it.`,
		Example: "  sealift snapshot show --identity snapshots.key\n  sealift snapshot show /media/usb/cluster-1.snapshot -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := a.finder(k)
			if err != nil {
				return err
			}
			found, err := f.Index(cmd.Context(), strings.Join(args, ""))
			if err != nil && (!errors.Is(err, snapshot.ErrUntrusted) || found.Format == 0) {
				return err
			}
			s := shown{Found: found, Trusted: err == nil}
			if err != nil {
				s.Why = err.Error()
			}
			return a.Print(format, s, func() error { return a.printSnapshot(s) })
		},
	}
	k.addFlags(cmd)
	app.AddOutputFlag(cmd, &format)
	return cmd
}

// shown is the output of 'snapshot show'.
type shown struct {
	snapshot.Found
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
	var format string
	cmd := &cobra.Command{
		Use:   "verify [FILE|NAME]",
		Short: "Check every byte of a snapshot",
		Long: `Decrypt a whole snapshot, and compare its files and etcd's database with their digests. Nothing is written. The argument is
a file, or the name of a snapshot in the store. Without one, the command checks the newest of the store.`,
		Example: "  sealift snapshot verify --identity snapshots.key\n  sealift snapshot verify /media/usb/cluster-1.snapshot --passphrase-file /root/passphrase",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := a.finder(k)
			if err != nil {
				return err
			}
			found, err := f.Verify(cmd.Context(), strings.Join(args, ""))
			if err != nil {
				return err
			}
			return a.Print(format, found, change.Line(a.Out, "%s is whole: %s of %s, %s, %s", found.File, found.Node, found.Time.Format(time.RFC3339), contentOf(found.Index), signedBy(found.Index)))
		},
	}
	k.addFlags(cmd)
	app.AddOutputFlag(cmd, &format)
	return cmd
}

// signedBy names the signer of a verified snapshot.
func signedBy(index snapshot.Index) string {
	if !index.Signed() {
		return "not signed"
	}
	return "signed by the cluster " + index.Cluster
}

func (a commands) snapshotUnpackCommand() *cobra.Command {
	var k snapshotKeys
	var format string
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
			f, err := a.finder(k)
			if err != nil {
				return err
			}
			found, err := f.Unpack(cmd.Context(), strings.Join(args, ""), out)
			if err != nil {
				return err
			}
			return a.Print(format, found, change.Line(a.Out, "%s is whole; its files are in %s", found.File, out))
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "folder to write; it must not exist")
	k.addFlags(cmd)
	app.AddOutputFlag(cmd, &format)
	return cmd
}
