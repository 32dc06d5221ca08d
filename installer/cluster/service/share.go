package service

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/cluster/controlplane"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/mirror"
	"github.com/sealift/sealift/installer/cluster/oidc"
	"github.com/sealift/sealift/installer/cluster/peer"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/regularfile"
)

// Share serves joining hosts, until ctx ends. undo returns what this node, own, sends to another one, asks, while it leads an undo. The
// error of mayJoin says why no control plane may join now.
func Share(ctx context.Context, root string, undo func(own, asks string) (share.Undo, error), mayJoin func(context.Context, kubernetes.Interface) error, log *slog.Logger) error {
	admin, err := controlplane.AsAdministrator()
	if err != nil {
		return err
	}
	ca, err := identity.ReadAuthority(kubeadm.PKI)
	if err != nil {
		return err
	}
	script, err := admin.Script(root)
	if err != nil {
		return err
	}
	r, err := runtime.Connect(ctx, runtime.Socket)
	if err != nil {
		return err
	}
	defer r.Close()
	own, err := host.Name()
	if err != nil {
		return err
	}
	belongs := func(ctx context.Context, name string, since time.Time) error {
		return isNode(ctx, admin.Client, name, since)
	}
	spread := &peer.Spread{Own: own, Authority: ca, Address: func(_, client string) string { return share.Address(client) }, Node: belongs, Log: log}
	peers := peerServer(own, r, log)
	s := &share.Server{
		Root: root, Shelf: node.ShelfDir(root), Programs: controlplane.Programs(root), Script: script.Text, Log: log,
		Blobs:     peers.Blob,
		Images:    mirror.Server{Content: r, Log: log, Spread: spread.Send},
		Peer:      peers,
		Authorize: func(ctx context.Context, whole string) error { return isToken(ctx, admin.Client, whole) },
		Node:      belongs,
		Invited:   func(ctx context.Context, key string) error { return holdsCertificateKey(ctx, admin.Client, key) },
		Cluster: func(ctx context.Context, may func(identity.Right) bool) (share.Cluster, error) {
			return clusterFor(ctx, admin, root, may, mayJoin)
		},
	}
	s.Undo = func(name string) (share.Undo, error) { return undo(own, name) }
	l, err := net.Listen("tcp", share.Address(admin.Address))
	if err != nil {
		return err
	}
	return share.Serve(ctx, share.Mixed(l, ca.Server(own, admin.Address, own)), s.Handler())
}

// clusterFor returns the data of the cluster that a client may have.
func clusterFor(ctx context.Context, admin controlplane.Administrator, root string, may func(identity.Right) bool, mayJoin func(context.Context, kubernetes.Interface) error) (share.Cluster, error) {
	c, err := admin.Cluster(ctx)
	if err != nil {
		return c, err
	}
	if _, err := os.Stat(filepath.Join(root, bundle.IndexName)); errors.Is(err, fs.ErrNotExist) {
		return c, errors.New("this control plane was adopted, and has no bundle to give out yet; run 'sealift upgrade' with one, also if it has the versions that run")
	}
	if c.Rotation, err = rotation(may); err != nil {
		return c, err
	}
	text, err := regularfile.ReadFile(node.InstallerFile(root))
	if c.Installer = string(text); err == nil && !may(identity.ReadInstaller) {
		c.Installer, err = workerInstaller(root, text)
	}
	if err != nil {
		return c, err
	}
	if may(identity.ReadInstaller) {
		if c.Authentication, err = oidc.File(ctx, admin.Client); err != nil {
			return c, err
		}
		if err := mayJoin(ctx, admin.Client); err != nil { // a host whose join has begun goes on
			c.NoControlPlane = err.Error()
		}
	}
	keys, err := regularfile.ReadFile(cluster.EncryptionFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	case err == nil && may(identity.ReadKeys):
		c.Encryption = string(keys)
	}
	return c, err
}

// rotation returns what a client may know of an unfinished rotation of CAs; "" if there is none.
func rotation(may func(identity.Right) bool) (string, error) {
	text, err := regularfile.ReadFile(authority.File)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil || may(identity.ReadCAKeys) {
		return string(text), err
	}
	whole, err := authority.Parse(text)
	if err != nil {
		return "", err
	}
	public, ok := whole.ForWorkers()
	if !ok {
		return "", nil
	}
	return string(public.Encode()), nil
}
