package installer

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// fullBelow is the free space, in bytes, below which a file system is named when something found no room.
const fullBelow = 64 << 20

// explainFull adds to an error for want of disk space which file system is full and what the rest of the install needs there.
// Programs and containerd tell of it in words alone.
func (i *Install) explainFull(err error) error {
	if err == nil || !errors.Is(err, syscall.ENOSPC) && !strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
		return err
	}
	needs, needsErr := i.needs()
	if needsErr != nil {
		return errors.Join(err, needsErr)
	}
	needed := make(map[string]uint64)
	for _, space := range needs.Space {
		needed[space.Path] += space.Bytes
	}
	var full []string
	for _, path := range []string{i.options.Root, containerdDir, "/var/lib/etcd", "/usr", "/etc", "/var/log", "/tmp", "/"} {
		free, there := freeSpace(path)
		if !there || free >= fullBelow && free >= needed[path] {
			continue
		}
		line := fmt.Sprintf("%s has %d MB free", path, free/1e6)
		if needed[path] > 0 {
			line += fmt.Sprintf(", and what is to come needs %d MB", needed[path]/1e6)
		}
		full = append(full, line)
	}
	if len(full) == 0 {
		return err
	}
	return fmt.Errorf("%w\nno space left: %s; free some there", err, strings.Join(full, "; "))
}

// freeSpace is what programs may still write to the file system of a path, which may not be there.
func freeSpace(path string) (bytes uint64, there bool) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return 0, false
	}
	return fs.Bavail * uint64(fs.Bsize), true
}
