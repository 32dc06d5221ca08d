// Package atomicfile writes files that are there whole or not at all: under a temporary name in a directory of the same
// file system, synced, then renamed. What a killed process left behind is recognised and removed: a file that is being
// written is locked by its writer, and the kernel drops the lock whatever way the writer ends.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// File is a file that is being written. Commit or Discard must follow.
type File struct{ *os.File }

// attempts bounds how often a file that Sweep took for abandoned, just before it was locked, is created anew.
const attempts = 10

// Create starts a file in dir under a name made from pattern as os.CreateTemp does.
func Create(dir, pattern string) (*File, error) {
	for range attempts {
		f, err := os.CreateTemp(dir, pattern)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close(), os.Remove(f.Name()))
		}
		if stillThere(f) {
			return &File{f}, nil
		}
		_ = f.Close()
	}
	return nil, fmt.Errorf("create a temporary file in %s: another process keeps removing it", dir)
}

func stillThere(f *os.File) bool {
	named, err := os.Stat(f.Name())
	if err != nil {
		return false
	}
	opened, err := f.Stat()
	return err == nil && os.SameFile(named, opened)
}

// Commit gives the file its mode and its place, replacing what is there. When it returns without an error the file
// survives a loss of power.
func (f *File) Commit(path string, mode os.FileMode) error {
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Place(path, mode); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// Place is Commit for what is checked whenever it is read: after a loss of power the file may be there with other content.
func (f *File) Place(path string, mode os.FileMode) error {
	if err := checkReplaceable(path); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	// Renamed before it is closed: until then it is locked, and nobody takes it for abandoned.
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return f.Close()
}

// ErrNotRegular says that a path has a device, a pipe or a folder, which no file takes the place of.
var ErrNotRegular = errors.New("is not a regular file, and is not replaced; name another")

// checkReplaceable refuses what is not a regular file, such as /dev/null, also behind a symbolic link.
func checkReplaceable(path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s %w", path, ErrNotRegular)
	}
	return nil
}

// Discard drops the file; after Commit it does nothing.
func (f *File) Discard() {
	if err := f.Close(); !errors.Is(err, os.ErrClosed) {
		_ = os.Remove(f.Name())
	}
}

// Write writes a whole file with mode 0644.
func Write(path string, data []byte) error { return WriteMode(path, 0o644, data) }

// WriteMode writes a whole file with a mode of its own.
func WriteMode(path string, mode os.FileMode, data []byte) error {
	return Fill(path, mode, func(w *os.File) error {
		_, err := w.Write(data)
		return err
	})
}

// Replace gives a file that is there other content, and keeps its mode.
func Replace(path string, data []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return WriteMode(path, info.Mode().Perm(), data)
}

// Fill writes a file with what fill writes. When fill fails, what was at path stays.
func Fill(path string, mode os.FileMode, fill func(*os.File) error) error {
	if err := checkReplaceable(path); err != nil { // before anything is written beside it
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

// FillLarge is Fill for large files: it first removes what killed processes left of them.
func FillLarge(path string, mode os.FileMode, fill func(*os.File) error) error {
	if err := Sweep(filepath.Dir(path), temporaryFor(path)); err != nil {
		return err
	}
	return Fill(path, mode, fill)
}

// Folder is a temporary folder of a process.
type Folder struct {
	Path string
	lock *os.File
}

// MkdirTemp makes a folder in dir under a name made from pattern, as Create does. Remove must follow.
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
		if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), lock.Close(), os.Remove(path))
		}
		if stillThere(lock) {
			return &Folder{path, lock}, nil
		}
		_ = lock.Close()
	}
	return nil, fmt.Errorf("create a temporary folder in %s: another process keeps removing it", dir)
}

// Remove removes the folder with all that is in it.
func (f *Folder) Remove() error { return errors.Join(os.RemoveAll(f.Path), f.lock.Close()) }

// Sweep removes the temporary files and folders in dir that Create and MkdirTemp made from pattern, and that no process is
// writing. Files of other names stay, and so does what is neither a file nor a folder.
func Sweep(dir, pattern string) error {
	before, after, ok := cutLast(pattern, "*")
	if !ok {
		return fmt.Errorf("sweep %s: pattern %q has no *", dir, pattern)
	}
	return sweep(dir, func(name string) bool {
		middle, isOurs := strings.CutPrefix(name, before)
		middle, isOurs2 := strings.CutSuffix(middle, after)
		return isOurs && isOurs2 && isNumber(middle)
	})
}

// SweepAll removes what Fill, Write and their like left in dir, whatever files they wrote.
func SweepAll(dir string) error {
	return sweep(dir, func(name string) bool {
		before, number, ok := cutLast(name, ".")
		return ok && len(before) > 1 && strings.HasPrefix(before, ".") && isNumber(number)
	})
}

func sweep(dir string, isOurs func(name string) bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !isOurs(e.Name()) || !e.Type().IsRegular() && !e.IsDir() {
			continue
		}
		err := removeAbandoned(filepath.Join(dir, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) { // another user's, in a shared folder
			return fmt.Errorf("remove what an interrupted run left: %w", err)
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

// isNumber tells what os.CreateTemp and os.MkdirTemp put in the place of the *.
func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func removeAbandoned(path string) error {
	// Opening a pipe that took the place of a file would wait for its writer.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(path)
}

// SyncDir makes the names in a directory survive a loss of power: of files made, renamed or removed there.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// MkdirAll is os.MkdirAll for folders that are to survive a loss of power.
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
