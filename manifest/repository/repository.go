// Package repository opens files of the repository that contains an add-on, and no others. Manifests come from pull requests:
// an absolute path, ../../.. or a symbolic link must not lead to the secrets of the machine that builds them.
package repository

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// versionControl is the folder of a repository that may hold credentials. It is never built.
const versionControl = ".git"

// ErrOutside means that a path leads out of the repository, or into version control's own files.
var ErrOutside = errors.New("it is outside the repository")

// Repository is an open repository.
type Repository struct {
	path string // absolute
	real string // the same without symbolic links
	root *os.Root
	// links counts the names that files with several have outside of version control.
	links func() (map[file]int, error)
}

// file identifies a file whatever its name.
type file struct{ device, inode uint64 }

// Of opens the repository of an add-on's directory, addons/<name>/<version>: the nearest directory above it that is under version
// control or, without one, the directory that has addons. If the add-on itself is under version control, as a submodule is, it is the directory
// <name>. A symbolic link is never treated as the repository, because it may lead
// anywhere.
func Of(dir string) (*Repository, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	where, err := find(abs)
	if err != nil {
		return nil, fmt.Errorf("look for the root of the repository: %w", err)
	}
	return At(where)
}

// layout is the depth of an add-on in its repository: addons, <name> and <version>.
const layout = 3

func find(dir string) (string, error) {
	fallback, start := dir, dir
	for range layout {
		if isLink(fallback) {
			start = filepath.Dir(fallback)
		}
		fallback = filepath.Dir(fallback)
	}
	for at := start; at != filepath.Dir(at); at = filepath.Dir(at) {
		_, err := os.Lstat(filepath.Join(at, versionControl))
		switch {
		case err == nil && at == dir:
			return filepath.Dir(dir), nil // a submodule: all versions of an add-on belong together
		case err == nil && !isLink(at):
			return at, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR):
			return "", err
		}
	}
	return fallback, nil
}

func isLink(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.Mode().Type() == fs.ModeSymlink
}

// At opens the repository at an absolute path.
func At(where string) (*Repository, error) {
	root, err := os.OpenRoot(where)
	if err != nil {
		return nil, fmt.Errorf("open repository: %w", err)
	}
	r := &Repository{path: where, root: root}
	r.links = sync.OnceValues(r.countLinks)
	if r.real, err = filepath.EvalSymlinks(where); err != nil {
		return nil, errors.Join(fmt.Errorf("open repository: %w", err), root.Close())
	}
	return r, nil
}

// Close closes the repository. Files that it opened stay open.
func (r *Repository) Close() { _ = r.root.Close() }

// Path is the absolute path of the repository.
func (r *Repository) Path() string { return r.path }

// FS returns the unchecked repository: use Open to follow links.
func (r *Repository) FS() fs.FS { return r.root.FS() }

// Name returns the path in the repository of the file that name leads to from dir, a directory of the file system. Dir may be
// relative to the working directory.
func (r *Repository) Name(dir, name string) (string, error) {
	if path.IsAbs(name) {
		return "", fmt.Errorf("%s is an absolute path: %w %s", name, ErrOutside, r.path)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	below, err := filepath.Rel(r.path, filepath.Join(abs, filepath.FromSlash(name)))
	if err != nil || !filepath.IsLocal(below) {
		return "", fmt.Errorf("%s: %w %s", name, ErrOutside, r.path)
	}
	return filepath.ToSlash(below), nil
}

// Dir opens a directory of the repository, whose files can lead no further out.
func (r *Repository) Dir(name string) (*os.Root, error) {
	root, err := r.root.OpenRoot(filepath.FromSlash(name))
	return root, r.explain(name, err)
}

// Open opens a regular file of the repository, or the target of a link to one within the repository.
func (r *Repository) Open(name string) (*os.File, error) {
	// Opening a named pipe would otherwise wait for its writer.
	f, err := r.root.OpenFile(filepath.FromSlash(path.Clean(name)), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, r.explain(name, err)
	}
	if err := r.check(f); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return f, nil
}

// check refuses irregular files and the files of version control, under whatever name they were opened.
func (r *Repository) check(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is not a regular file")
	}
	is, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return err
	}
	below, err := filepath.Rel(r.real, is)
	if err != nil {
		return err
	}
	if slices.Contains(strings.Split(below, string(filepath.Separator)), versionControl) {
		return fmt.Errorf("%w: it belongs to version control", ErrOutside)
	}
	return r.checkLinks(info)
}

// checkLinks refuses a file that has another name outside of the repository, or in version control's files: a hard link leads out as a
// symbolic one does.
func (r *Repository) checkLinks(info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Nlink < 2 {
		return nil
	}
	names, err := r.links()
	if err != nil {
		return fmt.Errorf("look for its hard links: %w", err)
	}
	if names[file{stat.Dev, stat.Ino}] < int(stat.Nlink) {
		return fmt.Errorf("%w: it is a hard link, and its file has a name elsewhere; copy the file", ErrOutside)
	}
	return nil
}

func (r *Repository) countLinks() (map[file]int, error) {
	names := make(map[file]int)
	return names, fs.WalkDir(r.root.FS(), ".", func(_ string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.Name() == versionControl && e.IsDir():
			return fs.SkipDir
		case !e.Type().IsRegular():
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Nlink > 1 {
			names[file{stat.Dev, stat.Ino}]++
		}
		return nil
	})
}

// explain distinguishes an escape, for which package os has no error value, from other failures, which name the whole path.
func (r *Repository) explain(name string, err error) error {
	var failed *fs.PathError
	if !errors.As(err, &failed) {
		return err
	}
	if failed.Err.Error() == "path escapes from parent" {
		return fmt.Errorf("%s: %w %s", name, ErrOutside, r.path)
	}
	return &fs.PathError{Op: "open", Path: filepath.Join(r.path, filepath.FromSlash(name)), Err: failed.Err}
}
