package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/authority"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/controlplane"
	"github.com/sealift/sealift/installer/node"
	"github.com/sealift/sealift/installer/runtime"
	"github.com/sealift/sealift/installer/share"
	"github.com/sealift/sealift/installer/token"
	"github.com/sealift/sealift/installer/undo"
)

// Share serves hosts that join, until ctx ends.
func Share(ctx context.Context, root string, log *slog.Logger) error {
	admin, err := controlplane.AsAdministrator()
	if err != nil {
		return err
	}
	ca, err := share.ReadAuthority(cluster.PKI)
	if err != nil {
		return err
	}
	script, err := admin.Script()
	if err != nil {
		return err
	}
	r, err := runtime.Connect(ctx, runtime.Socket)
	if err != nil {
		return err
	}
	defer r.Close()
	s := &share.Server{
		Root: root, Shelf: node.ShelfDir(root), Binary: node.Binary, Script: script.Text, Log: log,
		Blobs: func(ctx context.Context, sha256 string) (share.Blob, error) { return r.Blob(ctx, sha256) },
		Authorize: func(ctx context.Context, whole string) error {
			err := token.Verify(ctx, admin.Client, whole)
			if errors.Is(err, token.ErrUnknown) {
				return share.ErrToken
			}
			return err
		},
		Member:       func(ctx context.Context, name string) (bool, error) { return isMember(ctx, admin.Client, name) },
		ControlPlane: func(ctx context.Context, key string) error { return holdsCertificateKey(ctx, admin.Client, key) },
		Cluster: func(ctx context.Context, controlPlane bool) (share.Cluster, error) {
			c, err := admin.Cluster(ctx)
			if err != nil {
				return c, err
			}
			if _, err := os.Stat(filepath.Join(root, bundle.IndexName)); errors.Is(err, fs.ErrNotExist) {
				return c, errors.New("this control plane was adopted, and has no bundle to give out yet; run 'sealift upgrade' with one, also if it has the versions that run")
			}
			if c.Rotation, err = rotation(controlPlane); err != nil {
				return c, err
			}
			text, err := os.ReadFile(node.InstallerFile(root))
			if c.Installer = string(text); err == nil && !controlPlane {
				c.Installer, err = workerInstaller(root, text)
			}
			if err != nil || !controlPlane {
				return c, err
			}
			keys, err := os.ReadFile(cluster.EncryptionFile)
			if c.Encryption = string(keys); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			return c, err
		},
	}
	hostname, err := os.Hostname()
	if err != nil {
		return err
	}
	s.Undo = func(name string) (share.Undo, error) { return undoFor(root, strings.ToLower(hostname), name) }
	l, err := net.Listen("tcp", share.Address(admin.Address))
	if err != nil {
		return err
	}
	return share.Serve(ctx, share.Mixed(l, ca.TLS(admin.Address, hostname)), s.Handler())
}

// undoFor is what a node gets from this one, which leads an undo.
func undoFor(root, own, asks string) (share.Undo, error) {
	set, o, ok, err := undo.Store{Root: root}.Ordered()
	switch {
	case err != nil:
		return share.Undo{}, err
	case !ok || o.Leader != own:
		return share.Undo{}, fmt.Errorf("no undo that this node leads: %w", fs.ErrNotExist)
	case !o.Has(asks):
		return share.Undo{}, share.ErrMember
	}
	return share.Undo{Order: o.Encode(), Etcd: set.Etcd()}, nil
}

// rotation is what a node may know of the rotation of CAs that is under way; "" if there is none.
func rotation(controlPlane bool) (string, error) {
	text, err := os.ReadFile(authority.File)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil || controlPlane {
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
