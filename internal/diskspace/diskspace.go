// Package diskspace says how much a file system has left. It reserves nothing: another program may write there, too.
package diskspace

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Space is what a file system has left for programs that are not root's.
type Space struct {
	Device    uint64 // identifies the file system
	Bytes     uint64
	Inodes    uint64 // how many more files it can have
	AllInodes uint64 // how many files it can have; 0, as Inodes then is, if it has no such limit
	ReadOnly  bool   // how it is mounted; in a sandbox with MountsVariable, how the host mounts it
	NoExec    bool   // it is mounted so that no programs run from it
}

// Of returns the space of the file system that has a path, or would have it.
func Of(path string) (s Space, err error) {
	at := path
	var fs unix.Statfs_t
	for err = unix.Statfs(at, &fs); errors.Is(err, unix.ENOENT) && at != filepath.Dir(at); err = unix.Statfs(at, &fs) {
		at = filepath.Dir(at)
	}
	var stat unix.Stat_t
	if err == nil {
		err = unix.Stat(at, &stat)
	}
	if err != nil {
		return s, fmt.Errorf("read what %s has left: %w", path, err)
	}
	readOnly := fs.Flags&unix.ST_RDONLY != 0 && !isWritableOnHost(at)
	return Space{Device: stat.Dev, Bytes: fs.Bavail * uint64(fs.Bsize), Inodes: fs.Ffree, AllInodes: fs.Files, ReadOnly: readOnly, NoExec: fs.Flags&unix.ST_NOEXEC != 0}, nil
}
