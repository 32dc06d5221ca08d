package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/regularfile"
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

// OpenFolder opens a folder by its path.
func OpenFolder(path string) (*Folder, error) {
	f, _, err := find(path, false, true, 0)
	return f, err
}

// MakeFolder opens a folder. Those on the way that are missing are made, and survive a power failure.
func MakeFolder(path string, mode fs.FileMode) (*Folder, error) {
	f, _, err := find(path, false, true, mode)
	return f, err
}

// MkdirAll is os.MkdirAll, and the new folders survive a power failure.
func MkdirAll(path string, mode fs.FileMode) error {
	f, err := MakeFolder(path, mode)
	if err != nil {
		return err
	}
	return f.Close()
}

// Resolve follows the symbolic links in a path, also the last one. What they lead to may be missing.
func Resolve(path string) (string, error) {
	f, name, err := locate(path, true)
	if err != nil {
		return "", err
	}
	return filepath.Join(f.Path(), name), f.Close()
}

// SyncDir syncs a folder, so that files created, renamed or removed in it stay so after a power failure.
func SyncDir(path string) error { return within(path, atomicfile.SyncIn) }

// Sweep removes abandoned temporary files and folders in a folder, as atomicfile.Sweep does.
func Sweep(path, pattern string) error {
	return within(path, func(dir *os.Root) error { return atomicfile.SweepIn(dir, pattern) })
}

// SweepAll removes every abandoned temporary file in a folder, as atomicfile.SweepAll does.
func SweepAll(path string) error { return within(path, atomicfile.SweepAllIn) }

func within(path string, do func(dir *os.Root) error) error {
	f, err := OpenFolder(path)
	if err != nil {
		return err
	}
	return errors.Join(do(f.root), f.Close())
}

// CheckOwn refuses a path that somebody who is not root could lead elsewhere, or whose content is not root's to decide. What
// passes may be used by its path.
func CheckOwn(path string) error {
	for at := filepath.Clean(path); ; at = filepath.Dir(at) {
		f, err := OpenFolder(at)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err == nil && !f.trusted {
			err = fmt.Errorf("%s belongs to user %d with mode %v, or lies in a folder of others: give it to root, who alone may write to it, or name another folder", at, owner(info), info.Mode())
		}
		return errors.Join(err, f.Close())
	}
}

func owner(info fs.FileInfo) uint32 {
	uid, _ := Owner(info)
	return uid
}

// in does something with a name in the folder of a path. A symbolic link of that name is not followed.
func in(path string, do func(f *Folder, name string) error) error {
	f, name, err := locate(path, false)
	if err != nil {
		return err
	}
	return errors.Join(do(f, name), f.Close())
}

// Write writes a whole file with mode 0644.
func Write(path string, data []byte) error { return WriteMode(path, 0o644, data) }

// WriteMode writes a whole file with the given mode. A symbolic link there is replaced.
func WriteMode(path string, mode fs.FileMode, data []byte) error {
	return Fill(path, mode, func(w *os.File) error {
		_, err := w.Write(data)
		return err
	})
}

// Fill calls fill to write a file, as atomicfile.Fill does. A symbolic link there is replaced.
func Fill(path string, mode fs.FileMode, fill func(*os.File) error) error {
	return in(path, func(f *Folder, name string) error { return f.Fill(name, mode, fill) })
}

// Append opens a file for writing at its end. It makes the file with mode 0600.
func Append(path string) (file *os.File, err error) {
	err = in(path, func(f *Folder, name string) error {
		file, err = f.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
		if errors.Is(err, fs.ErrExist) {
			file, _, err = f.open(name, os.O_WRONLY|os.O_APPEND)
		}
		return f.at(name, err)
	})
	return file, err
}

// Replace replaces the content of an existing file and keeps its mode. A symbolic link stays one: the file that it leads to is
// replaced.
func Replace(path string, data []byte) error {
	f, name, err := locate(path, true)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Lstat(name)
	if err != nil {
		return err
	}
	return f.Fill(name, info.Mode().Perm(), func(w *os.File) error {
		_, err := w.Write(data)
		return err
	})
}

// Copy writes a copy of the file at from, which may be anywhere.
func Copy(path string, mode fs.FileMode, from string) (err error) {
	src, err := regularfile.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	return Fill(path, mode, func(w *os.File) error {
		_, err := io.Copy(w, src)
		return err
	})
}

// Symlink makes a symbolic link of root, in place of the file or link that has its name.
func Symlink(target, path string) error {
	return in(path, func(f *Folder, name string) error {
		return f.Symlink(target, name, uint32(os.Geteuid()), uint32(os.Getegid()))
	})
}

// Remove removes a file, a link or an empty folder. It may be gone already.
func Remove(path string) error { return remove(path, (*Folder).Remove) }

// RemoveAll removes what has a path, with everything in it. It may be gone already.
func RemoveAll(path string) error { return remove(path, (*Folder).RemoveAll) }

func remove(path string, by func(*Folder, string) error) error {
	err := in(path, by)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) { // of a folder on the way
		return nil
	}
	return err
}

// Rename moves a file or a folder.
func Rename(from, to string) error {
	return in(from, func(old *Folder, was string) error {
		return in(to, func(f *Folder, name string) error {
			source, err := old.Self()
			if err != nil {
				return err
			}
			defer source.Close()
			target, err := f.Self()
			if err != nil {
				return err
			}
			defer target.Close()
			if err := unix.Renameat(int(source.Fd()), was, int(target.Fd()), name); err != nil {
				return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
			}
			return nil
		})
	})
}

// Chmod changes the mode of a regular file. A symbolic link is not followed.
func Chmod(path string, mode fs.FileMode) error {
	return in(path, func(f *Folder, name string) error {
		file, _, err := f.Open(name)
		if err != nil {
			return err
		}
		return errors.Join(file.Chmod(mode), file.Close())
	})
}
