package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sealift/sealift/internal/atomicfile"
)

// maxLinks is how many symbolic links a path may lead through, as in Linux.
const maxLinks = 40

// walk is a path that is being opened. Its folders are open, from / on, because ".." in a link means the folder before.
type walk struct {
	folders []*Folder
	links   int
	mkdir   fs.FileMode // of folders that are missing; 0 makes none
}

func begin(mkdir fs.FileMode) (*walk, error) {
	root, err := os.OpenRoot("/")
	if err != nil {
		return nil, err
	}
	f := &Folder{root: root}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	f.trusted, f.shared = trust(info)
	return &walk{folders: []*Folder{f}, mkdir: mkdir}, nil
}

func (w *walk) last() *Folder { return w.folders[len(w.folders)-1] }

// leave closes the folders from a number on.
func (w *walk) leave(from int) {
	for _, f := range w.folders[from:] {
		_ = f.Close()
	}
	w.folders = w.folders[:from]
}

// split returns the names in a path. An absolute one begins with "/".
func split(path string) (names []string) {
	if filepath.IsAbs(path) {
		names = []string{"/"}
	}
	for name := range strings.SplitSeq(path, "/") {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}
	return names
}

// enter opens the folders of a path. With final, the last name stays: it is returned, and followed only with follow, if it is a
// symbolic link.
func (w *walk) enter(names []string, final, follow bool) (name string, err error) {
	for len(names) > 0 {
		name, names = names[0], names[1:]
		at, last := w.last(), final && len(names) == 0
		switch {
		case name == "/":
			w.leave(1)
			continue
		case name == "..":
			w.leave(max(1, len(w.folders)-1))
			continue
		case last && !follow:
			return name, nil
		}
		info, err := at.Lstat(name)
		switch {
		case last && (errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().Type() != fs.ModeSymlink):
			return name, nil
		case errors.Is(err, fs.ErrNotExist) && w.mkdir != 0:
			info, err = at.mkdir(name, w.mkdir)
		}
		if err != nil {
			return "", err
		}
		if info.Mode().Type() == fs.ModeSymlink {
			target, err := w.link(at, name, info)
			if err != nil {
				return "", err
			}
			names = slices.Concat(target, names)
			continue
		}
		next, err := at.Folder(name)
		if err != nil {
			return "", err
		}
		w.folders = append(w.folders, next)
	}
	if final {
		return "", fmt.Errorf("%s is a folder: %w", w.last().Path(), syscall.EISDIR)
	}
	return "", nil
}

func (w *walk) link(at *Folder, name string, info fs.FileInfo) ([]string, error) {
	if !at.trusts(info) {
		return nil, at.unsafe(name, "is a symbolic link")
	}
	if w.links++; w.links > maxLinks {
		return nil, at.at(name, &fs.PathError{Op: "open", Path: name, Err: syscall.ELOOP})
	}
	target, err := at.Readlink(name)
	return split(target), err
}

func (f *Folder) mkdir(name string, mode fs.FileMode) (fs.FileInfo, error) {
	if err := f.Mkdir(name, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := atomicfile.SyncIn(f.root); err != nil {
		return nil, err
	}
	return f.Lstat(name)
}

// locate opens the folder of a path, and returns the name there. Close must be called.
func locate(path string, follow bool) (*Folder, string, error) {
	return find(path, true, follow, 0)
}

func find(path string, final, follow bool, mkdir fs.FileMode) (*Folder, string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, "", err
	}
	w, err := begin(mkdir)
	if err != nil {
		return nil, "", err
	}
	name, err := w.enter(split(path), final, follow)
	if err != nil {
		w.leave(0)
		return nil, "", err
	}
	f := w.last()
	w.folders = w.folders[:len(w.folders)-1]
	w.leave(0)
	return f, name, nil
}
