package install

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/diskspace"
	"github.com/sealift/sealift/internal/plaintext"
	"github.com/sealift/sealift/preflight"
)

// fullBelow is the free space, in bytes, below which a file system is named when something failed.
const fullBelow = 64 << 20

// explainDiskFull adds to the error of an install which file systems are full, and how much space the rest of the install needs
// there. It checks them for every error: a full disk may show only as a server that has stopped answering its clients.
func (i *Install) explainDiskFull(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	needs, needsErr := i.needs()
	if needsErr != nil {
		return errors.Join(err, needsErr)
	}
	told := saysFull(err)
	full := fullDisks([]string{i.options.Root, node.StateDir(i.options.Root), node.ContainerdDir, "/var/lib/etcd", "/var/lib/kubelet", "/usr", filepath.Dir(node.Binary), "/etc", "/var/log", "/tmp", "/"}, needs.Space, told)
	switch {
	case len(full) == 0:
		return err
	case told:
		return fmt.Errorf("%w\nno space left: %s; free some there", err, strings.Join(full, "; "))
	}
	return fmt.Errorf("%w\nperhaps too little space: %s", err, strings.Join(full, "; "))
}

// saysFull reports whether a message says that a disk is full. Programs report that only in words, which begin with a capital.
func saysFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || strings.Contains(strings.ToLower(err.Error()), syscall.ENOSPC.Error())
}

// fullDisks names the file systems of the paths that have next to nothing left or, if one of them is known to be full, less
// than is needed. Each is named once, by its first path.
func fullDisks(paths []string, needs []preflight.Space, known bool) (full []string) {
	needed := make(map[uint64]uint64)
	for _, space := range needs {
		if disk, err := diskspace.Of(space.Path); err == nil {
			needed[disk.Device] += space.Bytes
		}
	}
	var seen []uint64
	for _, path := range paths {
		disk, err := diskspace.Of(path)
		if err != nil || slices.Contains(seen, disk.Device) {
			continue
		}
		seen = append(seen, disk.Device)
		if disk.Bytes >= fullBelow && (!known || disk.Bytes >= needed[disk.Device]) {
			continue
		}
		line := fmt.Sprintf("%s has %s free", path, plaintext.Bytes(disk.Bytes))
		if needed[disk.Device] > 0 {
			line += ", and the rest of the install needs " + plaintext.Bytes(needed[disk.Device])
		}
		full = append(full, line)
	}
	return full
}
