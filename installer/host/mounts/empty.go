package mounts

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sealift/sealift/installer/host/proc"
)

// Empty removes what is in a folder, and the folder itself unless keep says otherwise. A file or a link is removed; no link is
// followed. What is mounted below is not touched, nor are the folders on the way to it: it may be a disk of somebody else's, or
// a volume that could not be unmounted. The mount points are returned.
func Empty(folder string, keep bool) (mounted []string, err error) {
	info, err := os.Lstat(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, os.Remove(folder)
	}
	resolved, err := filepath.EvalSymlinks(folder) // as the kernel's list has it
	if err != nil {
		return nil, err
	}
	mounts, err := proc.Fields("/proc/self/mountinfo", func(f []string) string { return proc.Unescape(f[4]) })
	if err != nil {
		return nil, err
	}
	e := emptier{mounts: mounts}
	if err := e.below(resolved); err != nil || keep || len(e.kept) > 0 {
		return e.kept, err
	}
	if err := os.Remove(resolved); err != nil && !errors.Is(err, syscall.EBUSY) { // it is a mount point itself
		return nil, err
	}
	return nil, nil
}

type emptier struct {
	mounts []string // sorted
	kept   []string
}

func (e *emptier) below(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := e.remove(filepath.Join(folder, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (e *emptier) remove(path string) error {
	inside := false
	for _, mount := range e.mounts {
		if mount == path {
			e.kept = append(e.kept, path)
			return nil
		}
		inside = inside || strings.HasPrefix(mount, path+"/")
	}
	if !inside {
		return os.RemoveAll(path)
	}
	return e.below(path)
}
