// Package scratch makes temporary folders that do not outlive their owner for long: each new folder first removes those
// whose owner has died.
package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/sealift/sealift/internal/filelock"
)

// prefix is the name prefix of this user's folders. Folders of other users are not touched.
func prefix() string { return "sealift-scratch-" + strconv.Itoa(os.Geteuid()) + "-" }

// owned is a file in the folder that its owner has locked. The kernel releases the lock when the owner dies.
const owned = ".owned"

// Dir is a temporary folder.
type Dir struct {
	path string
	lock *os.File
}

// New makes a folder below the system's temporary folder.
func New() (*Dir, error) { return NewIn(os.TempDir()) }

// NewIn makes a folder below parent.
func NewIn(parent string) (*Dir, error) {
	// A folder looks abandoned until it is locked, so nobody may sweep in the meantime.
	gate, err := os.OpenFile(filepath.Join(parent, prefix()+"gate"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	defer gate.Close()
	if err := filelock.Lock(gate); err != nil {
		return nil, err
	}
	if err := sweep(parent); err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp(parent, prefix()+"*.d")
	if err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	lock, err := os.Create(filepath.Join(path, owned))
	if err == nil {
		err = filelock.TryLock(lock)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return &Dir{path: path, lock: lock}, nil
}

// Path is the folder.
func (d *Dir) Path() string { return d.path }

// File is the path of a file in the folder.
func (d *Dir) File(name string) string { return filepath.Join(d.path, name) }

// Remove removes the folder. It may be called more than once.
func (d *Dir) Remove() error {
	err := os.RemoveAll(d.path)
	if closeErr := d.lock.Close(); !errors.Is(closeErr, fs.ErrClosed) {
		err = errors.Join(err, closeErr)
	}
	return err
}

// sweep removes the folders below parent that have no owner.
func sweep(parent string) error {
	found, err := filepath.Glob(filepath.Join(parent, prefix()+"*.d"))
	if err != nil {
		return err
	}
	for _, path := range found {
		if !abandoned(path) {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove an abandoned temporary folder: %w", err)
		}
	}
	return nil
}

// abandoned reports whether a folder has no owner. In doubt it returns false.
func abandoned(path string) bool {
	lock, err := os.Open(filepath.Join(path, owned))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer lock.Close()
	return filelock.TryLock(lock) == nil
}
