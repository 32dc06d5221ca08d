package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/regularfile"
)

// Etcd describes a snapshot of etcd.
type Etcd struct {
	Size     int64  `json:"size"`              // bytes
	Revision int64  `json:"revision"`          // the snapshot has every change up to this one, and may have later ones
	Cluster  string `json:"cluster"`           // etcd's own ID of the cluster, in hex
	Version  string `json:"version,omitempty"` // of etcd's storage; empty before etcd 3.6
}

func describeEtcd(s *cluster.EtcdSnapshot) Etcd {
	return Etcd{Size: s.Size, Revision: s.Revision, Cluster: strconv.FormatUint(s.Cluster, 16), Version: s.Version}
}

// SaveEtcd writes a snapshot of the etcd of this control plane to a file that only root can read. The file appears under its
// name only when it is complete and etcd's digest of it is right. 'etcdutl snapshot restore' reads it. It is not encrypted and
// has all Secrets of the cluster.
func SaveEtcd(ctx context.Context, path string) (Etcd, error) {
	return saveEtcd(ctx, cluster.EtcdAddress{}, path)
}

func saveEtcd(ctx context.Context, from cluster.EtcdAddress, path string) (saved Etcd, err error) {
	s, err := cluster.OpenEtcdSnapshot(ctx, from)
	if err != nil {
		return Etcd{}, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	err = files.Fill(path, 0o600, func(f *os.File) error {
		_, err := io.Copy(f, s)
		return err
	})
	if err != nil {
		return Etcd{}, fmt.Errorf("save a snapshot of etcd as %s: %w", path, err)
	}
	return describeEtcd(s), nil
}

// VerifyEtcd reads a file of SaveEtcd and checks its digest.
func VerifyEtcd(path string) error {
	f, err := regularfile.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var check cluster.EtcdCheck
	if _, err := io.Copy(&check, f); err != nil {
		return err
	}
	if err := check.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
