package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/recovery/volume"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/internal/sha256hex"
)

// Source is the control plane that is saved. The zero value is this host.
type Source struct {
	Etcd cluster.EtcdAddress
	// Root is the install root; empty means node.DefaultRoot.
	Root string
	// Rootfs is the folder with the host's files; empty means /.
	Rootfs string
	// Node is the name of the host; empty means its own.
	Node string
	// Volumes saves the local volumes of the host, too.
	Volumes bool
	// Output receives what happens to volumes; nil for nothing.
	Output io.Writer

	execute volume.Executor // nil for the containerd of this host
}

func (s Source) path(name string) string { return files.Host{Rootfs: s.Rootfs}.Path(name) }

// Save writes a snapshot to a file that only its owner can read. The file appears under its name when it is complete. With ErrNotResumed it
// is there, too.
func (s Source) Save(ctx context.Context, path string, to ...age.Recipient) (Index, error) {
	open, err := s.open(ctx)
	if err != nil {
		return Index{}, err
	}
	defer open.Close()
	err = files.Fill(path, 0o600, func(f *os.File) error { return open.write(ctx, f, to) })
	if err != nil {
		return Index{}, fmt.Errorf("save a snapshot as %s: %w", path, err)
	}
	return open.index, open.resumed()
}

// opened is a snapshot that is ready to be written, once.
type opened struct {
	source Source
	index  Index
	signer signer
	bytes  int64 // of all files
	etcd   *cluster.EtcdSnapshot
	groups []volume.Group
	asleep error // why pods could not be resumed
}

// ErrNotResumed means that a snapshot was saved, and that pods which were quiesced for one are not resumed.
var ErrNotResumed = errors.New("the snapshot was saved, and is complete, but not all pods are resumed")

func (s Source) open(ctx context.Context) (*opened, error) {
	if s.Root == "" {
		s.Root = node.DefaultRoot
	}
	if s.Output == nil {
		s.Output = io.Discard
	}
	if s.execute == nil {
		s.execute = execute
	}
	if s.Node == "" {
		var err error
		if s.Node, err = host.Name(); err != nil {
			return nil, err
		}
	}
	o := &opened{source: s, index: Index{Format: Format, Time: time.Now().UTC().Truncate(time.Second), Node: s.Node}}
	if err := o.describe(s); err != nil {
		return nil, err
	}
	if err := o.collect(s); err != nil {
		return nil, err
	}
	if err := o.quiescence().Wake(ctx); err != nil { // pods that a save quiesced which was killed
		o.sleeps(err)
	}
	if s.Volumes {
		if err := o.findVolumes(ctx); err != nil {
			return nil, err
		}
	}
	var err error
	if o.etcd, err = cluster.OpenEtcdSnapshot(ctx, s.Etcd); err != nil {
		return nil, err
	}
	o.index.Etcd = describeEtcd(o.etcd)
	if err := o.index.check(); err != nil {
		return nil, errors.Join(fmt.Errorf("this host cannot be saved: %w", err), o.etcd.Close())
	}
	return o, nil
}

// led refuses a member of etcd without a leader. Its data may be old: the other members may have gone on.
func (o *opened) led() error {
	if o.etcd.Led {
		return nil
	}
	return errors.New("etcd on this host has no leader, so that its data may be older than the cluster's. Save on another control plane, or bring the other members back; " +
		"'sealift snapshot save --out FILE' saves what this member has")
}

// Close ends the transfer from etcd. Whether it was complete is known by then.
func (o *opened) Close() { _ = o.etcd.Close() }

// apiServerImage finds the version of Kubernetes in the image of its API server.
var apiServerImage = regexp.MustCompile(`/kube-apiserver:v([0-9][^\s@]*)`)

func (o *opened) describe(s Source) error {
	authority, err := identity.ReadAuthority(s.path(kubeadm.PKI))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("this host is not a control plane with the CA's private key, which signs snapshots; run the command on one, as root: %w", err)
	}
	if err != nil {
		return err
	}
	o.index.Cluster, o.signer.ca = identity.CAHash(authority.Certificate), authority.Certificate
	if o.signer.Signer, err = authority.Signer(s.Node); err != nil {
		return err
	}
	manifest, err := regularfile.ReadFile(s.path(kubeadm.APIServerManifest))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	pod, err := kubeadm.ParsePod(manifest)
	if err != nil {
		return fmt.Errorf("%s: %w", kubeadm.APIServerManifest, err)
	}
	if found := apiServerImage.FindStringSubmatch(pod.Image()); found != nil {
		o.index.Kubernetes = found[1]
	}
	if file := pod.Args().Value(encryptionFlag); file != "" && !strings.HasPrefix(file, kubeadm.Folder+"/") {
		return o.add(s, file)
	}
	return nil
}

const (
	kubeadmBackups = kubeadm.Folder + "/tmp"
)

// collect reads the files of the host: everything of kubeadm but its backups, and the Installer.
func (o *opened) collect(s Source) error {
	err := filepath.WalkDir(s.path(kubeadm.Folder), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(s.path("/"), path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path == s.path(kubeadmBackups): // kubeadm's backups, with databases
			return filepath.SkipDir
		case entry.IsDir():
			return nil
		case !printable(name):
			o.index.LeftOut = append(o.index.LeftOut, strconv.Quote("/"+name))
			return nil
		case !entry.Type().IsRegular():
			o.index.LeftOut = append(o.index.LeftOut, "/"+name)
			return nil
		}
		if err := o.add(s, "/"+name); !errors.Is(err, fs.ErrNotExist) { // a temporary file of a renewal is gone by now
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("the files of kubeadm: %w", err)
	}
	if err := o.add(s, node.InstallerFile(s.Root)); err != nil && !errors.Is(err, fs.ErrNotExist) { // a cluster without sealift
		return err
	}
	return nil
}

// add records a file of the host, unless it is too large.
func (o *opened) add(s Source, path string) error {
	f, err := regularfile.Open(s.path(path))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	digest, size, err := sha256hex.Read(io.LimitReader(f, maxFile+1))
	if err != nil {
		return err
	}
	if size > maxFile || o.bytes+size > maxAllFiles || len(o.index.Files) == maxFiles {
		o.index.LeftOut = append(o.index.LeftOut, path)
		return nil
	}
	o.bytes += size
	o.index.Files = append(o.index.Files, File{
		Name: strings.TrimPrefix(path, "/"), Mode: info.Mode().Perm(), Size: size, SHA256: digest,
	})
	return nil
}
