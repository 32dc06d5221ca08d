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

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/regularfile"
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
	if err := f.Chmod(mode); err != nil {
		return err
	}
	// Renamed before it is closed: until then it is locked, and nobody takes it for abandoned.
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return f.Close()
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
	f, err := Create(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer f.Discard()
	if err := fill(f.File); err != nil {
		return err
	}
	return f.Commit(path, mode)
}

// Sweep removes the temporary files in dir that match pattern, a pattern of Create, and that nobody is writing.
func Sweep(dir, pattern string) error {
	found, err := fs.Glob(os.DirFS(dir), pattern)
	if err != nil {
		return err
	}
	for _, name := range found {
		if err := removeAbandoned(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove what an interrupted run left: %w", err)
		}
	}
	return nil
}

func removeAbandoned(path string) error {
	f, err := regularfile.Open(path)
	if errors.Is(err, regularfile.ErrNot) {
		return nil // Create made no such thing
	}
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
	return os.Remove(path)
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
