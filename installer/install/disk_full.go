package install

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/installer/node"
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
	return fmt.Errorf("%w\nperhaps for want of space: %s", err, strings.Join(full, "; "))
}

// saysFull says whether something found no room. Programs tell of it in words alone, and begin them with a capital.
func saysFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || strings.Contains(strings.ToLower(err.Error()), syscall.ENOSPC.Error())
}

// fullDisks names the file systems of the paths that have next to nothing left or, if one of them is known to be full, less
// than is needed. Each is named once, by its first path.
func fullDisks(paths []string, needs []preflight.Space, known bool) (full []string) {
	needed := make(map[uint64]uint64)
	for _, space := range needs {
		if disk, _, err := diskOf(space.Path); err == nil {
			needed[disk] += space.Bytes
		}
	}
	var seen []uint64
	for _, path := range paths {
		disk, free, err := diskOf(path)
		if err != nil || slices.Contains(seen, disk) {
			continue
		}
		seen = append(seen, disk)
		if free >= fullBelow && (!known || free >= needed[disk]) {
			continue
		}
		line := fmt.Sprintf("%s has %s free", path, preflight.Size(free))
		if needed[disk] > 0 {
			line += ", and the rest of the install needs " + preflight.Size(needed[disk])
		}
		full = append(full, line)
	}
	return full
}

// diskOf gives the device of the file system that a path is on, or will be on, and what programs may still write there.
func diskOf(path string) (device, free uint64, err error) {
	var fs unix.Statfs_t
	for err = unix.Statfs(path, &fs); errors.Is(err, unix.ENOENT) && path != "/"; err = unix.Statfs(path, &fs) {
		path = filepath.Dir(path)
	}
	if err != nil {
		return 0, 0, err
	}
	var stat unix.Stat_t
	err = unix.Stat(path, &stat)
	return stat.Dev, fs.Bavail * uint64(fs.Bsize), err
}
