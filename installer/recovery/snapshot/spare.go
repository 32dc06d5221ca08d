package snapshot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/diskspace"
	"github.com/sealift/sealift/internal/plaintext"
)

// spared is how many bytes a snapshot leaves free on etcd's disk. etcd stops when it cannot write, and the kubelet removes pods
// before that.
const spared = 512 << 20

// lookEvery is how many bytes are written between two checks of the free disk space.
const lookEvery = 16 << 20

// etcdData is where kubeadm's etcd has its data.
const etcdData = "/var/lib/etcd"

// sparing writes to a file, and fails before the disk is full.
type sparing struct {
	io.Writer
	folder string
	unseen int // bytes since the last look
}

// spare returns a writer to a file that spares etcd, if etcd has its data below rootfs on the same disk.
func spare(f *os.File, rootfs string) (io.Writer, error) {
	folder := filepath.Dir(f.Name())
	etcd := files.Host{Rootfs: rootfs}.Path(etcdData)
	if _, err := os.Stat(etcd); errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	its, err := diskspace.Of(etcd)
	if err != nil {
		return nil, err
	}
	own, err := diskspace.Of(folder)
	if err != nil || own.Device != its.Device {
		return f, err
	}
	return &sparing{f, folder, lookEvery}, nil
}

func (s *sparing) Write(p []byte) (int, error) {
	if s.unseen += len(p); s.unseen > lookEvery {
		space, err := diskspace.Of(s.folder)
		if err != nil {
			return 0, err
		}
		if space.Bytes < spared {
			return 0, fmt.Errorf("%s has %s left, and etcd stops if it cannot write to the same disk: free some, or use another: %w", s.folder, plaintext.Bytes(space.Bytes), unix.ENOSPC)
		}
		s.unseen = 0
	}
	return s.Writer.Write(p)
}
