// Package atomicfile writes files that appear whole or not at all. It writes a temporary file on the same file system, syncs
// it, and renames it. The writer holds a lock on the temporary file, which the kernel releases when the writer ends. So the
// next run can recognise and remove leftovers of a killed process.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/internal/filelock"
)

// File is a file that is being written. Call Commit or Discard to end it.
type File struct {
	*os.File
	dir *os.Root // of CreateIn
}

// attempts is how often Create tries again when Sweep removes its file between creation and locking.
const attempts = 10

// Create starts a file in dir. pattern is as for os.CreateTemp.
func Create(dir, pattern string) (*File, error) {
	return create(dir, func() (*File, error) {
		f, err := os.CreateTemp(dir, pattern)
		return &File{File: f}, err
	})
}

func create(dir string, open func() (*File, error)) (*File, error) {
	for range attempts {
		f, err := open()
		if err != nil {
			return nil, err
		}
		if err := filelock.Lock(f.File); err != nil {
			return nil, errors.Join(err, f.Close(), f.remove())
		}
		if filelock.HasName(f.File, f.stat) {
			return f, nil
		}
		_ = f.Close()
	}
	return nil, fmt.Errorf("create a temporary file in %s: another process keeps removing it", dir)
}

// Commit sets the file's mode and renames it to path, replacing the file there. After Commit returns nil, the file survives
// a power failure.
func (f *File) Commit(path string, mode os.FileMode) error {
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Place(path, mode); err != nil {
		return err
	}
	if f.dir != nil {
		return SyncIn(f.dir)
	}
	return SyncDir(filepath.Dir(path))
}

// Place is Commit without syncs, for files that are verified on each read: after a power failure the file may have wrong
// content.
func (f *File) Place(path string, mode os.FileMode) error {
	if err := checkReplaceable(path, f.stat); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	// Rename before closing: closing releases the lock, and then Sweep would remove the file as abandoned.
	if err := f.rename(path); err != nil {
		return err
	}
	return f.Close()
}

// ErrNotRegular reports that path is a device, a pipe, a folder or a link to nothing, which must not be replaced by a file.
var ErrNotRegular = errors.New("is not a regular file, so it is not replaced; name another")

// checkReplaceable refuses paths that are not regular files, such as /dev/null.
func checkReplaceable(path string, stat func(string) (fs.FileInfo, error)) error {
	if info, err := stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s %w", path, ErrNotRegular)
	}
	return nil
}

// stat is os.Stat, except that a dangling link counts as existing.
func stat(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if link, linkErr := os.Lstat(path); linkErr == nil {
			return link, nil
		}
	}
	return info, err
}

// Discard removes the file. After Commit it does nothing.
func (f *File) Discard() {
	if err := f.Close(); !errors.Is(err, os.ErrClosed) {
		_ = f.remove()
	}
}

// Write writes a whole file with mode 0644, less the umask.
func Write(path string, data []byte) error { return WriteMode(path, 0o644, data) }

// WriteMode writes a whole file with the given mode, less the umask.
func WriteMode(path string, mode os.FileMode, data []byte) error {
	return Fill(path, mode, writes(data))
}

// Replace replaces the content of an existing file and keeps its mode.
func Replace(path string, data []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return fillExactly(path, info.Mode().Perm(), writes(data))
}

func writes(data []byte) func(*os.File) error {
	return func(w *os.File) error {
		_, err := w.Write(data)
		return err
	}
}

// Fill calls fill to write a file with the given mode, less the umask. If fill fails, the old file stays. It first removes the temporary
// files that killed processes left for path, as far as the folder can be read.
func Fill(path string, mode os.FileMode, fill func(*os.File) error) error {
	return fillExactly(path, NewFileMode(mode), fill)
}

// NewFileMode returns the mode of a new file: less the umask, as other programs make files for the person who runs them. Files that a node
// needs are written with FillIn, whatever the umask.
func NewFileMode(mode os.FileMode) os.FileMode {
	status, err := os.ReadFile("/proc/self/status") // reading it by umask(2) would change it for other threads
	if err != nil {
		return mode
	}
	_, rest, _ := strings.Cut(string(status), "\nUmask:\t")
	digits, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(digits, 8, 32)
	if err != nil {
		return mode
	}
	return mode &^ os.FileMode(mask)
}

func fillExactly(path string, mode os.FileMode, fill func(*os.File) error) error {
	if err := checkReplaceable(path, stat); err != nil { // before fill writes anything
		return err
	}
	if err := Sweep(filepath.Dir(path), temporaryFor(path)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	f, err := Create(filepath.Dir(path), temporaryFor(path))
	if err != nil {
		return err
	}
	defer f.Discard()
	if err := fill(f.File); err != nil {
		return err
	}
	return f.Commit(path, mode)
}

func temporaryFor(path string) string { return "." + filepath.Base(path) + ".*" }

// Folder is a temporary folder of a process.
type Folder struct {
	Path string
	lock *os.File
}

// MkdirTemp creates a folder in dir, as Create creates a file. Call Remove to end it.
func MkdirTemp(dir, pattern string) (*Folder, error) {
	for range attempts {
		path, err := os.MkdirTemp(dir, pattern)
		if err != nil {
			return nil, err
		}
		lock, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process took it for abandoned
		}
		if err != nil {
			return nil, errors.Join(err, os.Remove(path))
		}
		if err := filelock.Lock(lock); err != nil {
			return nil, errors.Join(err, lock.Close(), os.Remove(path))
		}
		if filelock.HasName(lock, os.Stat) {
			return &Folder{path, lock}, nil
		}
		_ = lock.Close()
	}
	return nil, fmt.Errorf("create a temporary folder in %s: another process keeps removing it", dir)
}

// Remove removes the folder and everything in it.
func (f *Folder) Remove() error { return errors.Join(os.RemoveAll(f.Path), f.lock.Close()) }

// Sweep removes abandoned temporary files and folders in dir: those that Create and MkdirTemp made from pattern and that no
// process holds locked. It leaves all other names alone, and everything that is neither a file nor a folder.
func Sweep(dir, pattern string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(SweepIn(root, pattern), root.Close())
}

func sweep(root *os.Root, isOurs func(name string) bool) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !isOurs(e.Name()) || !e.Type().IsRegular() && !e.IsDir() {
			continue
		}
		err := removeAbandoned(root, e.Name())
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) { // another user's, in a shared folder
			return fmt.Errorf("remove what an interrupted run left in %s: %w", root.Name(), err)
		}
	}
	return nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// isMadeFrom reports whether a name can be one that os.CreateTemp and os.MkdirTemp made of a pattern, with its parts around the *.
func isMadeFrom(name, before, after string) bool {
	middle, ok := strings.CutPrefix(name, before)
	middle, ends := strings.CutSuffix(middle, after)
	return ok && ends && isNumber(middle)
}

// isNumber reports whether s can be what os.CreateTemp and os.MkdirTemp put in place of the *.
func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func removeAbandoned(root *os.Root, name string) error {
	// O_NONBLOCK: opening a pipe under this name would otherwise wait for a writer.
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	err = filelock.TryLock(f)
	if errors.Is(err, filelock.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	return root.RemoveAll(name)
}

// Remove removes a file or an empty folder. It may be gone already.
func Remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// SyncDir syncs a directory, so that creations, renames and removals in it survive a power failure.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// SyncAll syncs the whole file system of a directory, which is faster than syncing thousands of files.
func SyncAll(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}

// MkdirAll is os.MkdirAll, and the new folders survive a power failure.
func MkdirAll(path string, mode os.FileMode) error {
	missing := []string{}
	for dir := filepath.Clean(path); ; dir = filepath.Dir(dir) {
		_, err := os.Stat(dir)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		missing = append(missing, dir)
	}
	if err := os.MkdirAll(path, mode); err != nil {
		return err
	}
	for _, dir := range missing {
		if err := SyncDir(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	return nil
}
