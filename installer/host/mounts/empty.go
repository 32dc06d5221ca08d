package mounts

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sealift/sealift/installer/host/files"
)

// Empty removes the content of a folder, and the folder itself unless keep is set. A file or a link is removed; no link is
// followed. Mounts below are not touched, nor are their parent folders: it may be a foreign disk, or a volume that could not be
// unmounted. The mount points are returned.
func Empty(path string, keep bool) (mounted []string, err error) {
	parent, err := files.OpenFolder(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	name := filepath.Base(path)
	info, err := parent.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, parent.Remove(name)
	}
	mounts, err := Points()
	if err != nil {
		return nil, err
	}
	e := emptier{mounts: mounts}
	if err := e.below(parent, name); err != nil || keep || len(e.kept) > 0 {
		return e.kept, err
	}
	if err := parent.Remove(name); err != nil && !errors.Is(err, syscall.EBUSY) { // it is a mount point itself
		return nil, err
	}
	return nil, nil
}

type emptier struct {
	mounts []string // sorted
	kept   []string
}

func (e *emptier) below(parent *files.Folder, name string) error {
	folder, err := parent.Folder(name)
	if err != nil {
		return err
	}
	defer folder.Close()
	names, err := folder.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := e.remove(folder, name); err != nil {
			return err
		}
	}
	return nil
}

func (e *emptier) remove(folder *files.Folder, name string) error {
	path, inside := filepath.Join(folder.Path(), name), false // as in the kernel's list
	for _, mount := range e.mounts {
		if mount == path {
			e.kept = append(e.kept, path)
			return nil
		}
		inside = inside || strings.HasPrefix(mount, path+"/")
	}
	if !inside {
		return folder.RemoveAll(name)
	}
	return e.below(folder, name)
}
