package files

import (
	"errors"
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

// OpenFolder opens a folder by its path.
func OpenFolder(path string) (*Folder, error) {
	f, _, err := find(path, false, true, 0)
	return f, err
}

// MakeFolder opens a folder. Missing parents are created, and survive a power failure.
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

// Resolve follows the symbolic links in a path, including the last one. What they lead to may be missing.
func Resolve(path string) (string, error) {
	f, name, err := locate(path, true)
	if err != nil {
		return "", err
	}
	return filepath.Join(f.Path(), name), f.Close()
}

// SyncDir syncs a folder, so that creations, renames and removals in it survive a power failure.
func SyncDir(path string) error { return within(path, atomicfile.SyncIn) }

// Sweep removes abandoned temporary files and folders in a folder, as atomicfile.Sweep does.
func Sweep(path, pattern string) error {
	return within(path, func(dir *os.Root) error { return atomicfile.SweepIn(dir, pattern) })
}

// SweepAll removes every abandoned temporary file of atomicfile in a folder, whatever its target was.
func SweepAll(path string) error { return within(path, atomicfile.SweepAllIn) }

func within(path string, do func(dir *os.Root) error) error {
	f, err := OpenFolder(path)
	if err != nil {
		return err
	}
	return errors.Join(do(f.root), f.Close())
}

// SyncAll syncs the whole file system of a folder, which is faster than syncing thousands of files.
func SyncAll(path string) error {
	f, err := OpenFolder(path)
	if err != nil {
		return err
	}
	defer f.Close()
	self, err := f.Self()
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(self.Fd())), self.Close())
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

// Create creates a file and opens it for writing. It must not exist.
func Create(path string, mode fs.FileMode) (file *os.File, err error) {
	err = in(path, func(f *Folder, name string) error {
		file, err = f.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
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

// Symlink creates a symbolic link of root, in place of the file or link with its name.
func Symlink(target, path string) error {
	return in(path, func(f *Folder, name string) error {
		return f.Symlink(target, name, uint32(os.Geteuid()), uint32(os.Getegid()))
	})
}

// Remove removes a file, a link or an empty folder. It may be gone already.
func Remove(path string) error { return remove(path, (*Folder).Remove) }

// RemoveAll removes the file or folder at a path, and its content. It may be gone already.
func RemoveAll(path string) error { return remove(path, (*Folder).RemoveAll) }

func remove(path string, by func(*Folder, string) error) error {
	err := in(path, by)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) { // of a parent folder
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

// IsIn reports whether a path is one of the folders, or in one. It compares clean paths, and follows no links.
func IsIn(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") })
}
