// Package regularfile opens files from untrusted folders. Opening or reading a pipe without a writer, or a device, could
// block forever, and no signal would end it. This package refuses such files at once.
package regularfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNot reports that the path is not a regular file but a folder, a pipe, a socket or a device.
var ErrNot = errors.New("not a regular file")

// Open opens a file for reading, as os.Open does.
func Open(name string) (*os.File, error) { return OpenFile(name, os.O_RDONLY, 0) }

// OpenFile opens or creates a file, as os.OpenFile does.
func OpenFile(name string, flag int, mode fs.FileMode) (*os.File, error) {
	return regular(os.OpenFile(name, flag|unix.O_NONBLOCK, mode))
}

// OpenIn opens a file below root for reading, as root.Open does.
func OpenIn(root *os.Root, name string) (*os.File, error) {
	return OpenFileIn(root, name, os.O_RDONLY)
}

// OpenFileIn opens an existing file below root, as root.OpenFile does.
func OpenFileIn(root *os.Root, name string, flag int) (*os.File, error) {
	return regular(root.OpenFile(name, flag|unix.O_NONBLOCK, 0))
}

// regular closes f and fails if f is not a regular file. O_NONBLOCK has no effect on regular files.
func regular(f *os.File, err error) (*os.File, error) {
	if err != nil {
		if errors.Is(err, unix.ENXIO) { // a socket cannot be opened at all
			err = errors.Join(ErrNot, err)
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: f.Name(), Err: ErrNot}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// ReadFile reads a whole file, as os.ReadFile does.
func ReadFile(name string) ([]byte, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	return text, errors.Join(err, f.Close())
}

// ReadAtMost reads a whole file of at most limit bytes. A larger one is an error that names it.
func ReadAtMost(name string, limit int64) ([]byte, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	return text, errors.Join(err, f.Close())
}
