package service

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/peer"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/internal/poll"
)

// peerPause is the pause between two attempts to listen, and between two looks for faulty transfers.
const peerPause = time.Minute

// Peer gives blobs of this node's images to nodes that a control plane sends here, and deletes faulty transfers of its containerd, until ctx
// ends. A control plane gives blobs in Share.
func Peer(ctx context.Context, log *slog.Logger) {
	var both sync.WaitGroup
	for _, do := range []func(context.Context, *slog.Logger) error{givePeers, dropFaulty} {
		both.Go(func() {
			var told poll.Told
			poll.Repeat(ctx, func(ctx context.Context) time.Duration {
				err := do(ctx, log)
				if told.IsNew(ctx, err) {
					log.Warn("this node may not exchange images with others", "error", err)
				}
				return peerPause
			})
		})
	}
	both.Wait()
}

// givePeers listens on a worker until ctx ends. A node that has not joined yet, or whose kubelet has no certificate of the cluster, gives
// nothing.
func givePeers(ctx context.Context, log *slog.Logger) error {
	if _, err := os.Stat(kubeadm.APIServerManifest); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	certificate := share.KubeletCertificate(kubeadm.KubeletServing)
	if _, err := certificate(); err != nil {
		return fmt.Errorf("the cluster signs it when serverTLSBootstrap is on: %w", err)
	}
	name, err := host.Name()
	if err != nil {
		return err
	}
	r, err := runtime.Connect(ctx, runtime.Socket)
	if err != nil {
		return err
	}
	defer r.Close()
	l, err := net.Listen("tcp", ":"+strconv.Itoa(share.Port))
	if err != nil {
		return err
	}
	return share.Serve(ctx, share.Mixed(l, peer.TLS(clusterCAs, certificate)), peerServer(name, r, log))
}

// peerServer gives the blobs of a containerd.
func peerServer(node string, r *runtime.Runtime, log *slog.Logger) *peer.Server {
	return &peer.Server{
		Node: node, Trusted: clusterCAs, Log: log,
		Blob: func(ctx context.Context, sha256 string) (peer.Blob, error) { return r.Blob(ctx, sha256) },
	}
}

func clusterCAs() ([]*x509.Certificate, error) {
	return identity.ReadCAs(filepath.Join(kubeadm.PKI, "ca.crt"))
}

// dropFaulty deletes faulty transfers once.
func dropFaulty(ctx context.Context, log *slog.Logger) error {
	r, err := runtime.Connect(ctx, runtime.Socket)
	if err != nil {
		return err
	}
	defer r.Close()
	dropped, err := r.DropFaulty(ctx, time.Now())
	for _, ref := range dropped {
		log.Warn("deleted a transfer of containerd: it, or another one, has other content than its digest says", "transfer", ref)
	}
	return err
}
