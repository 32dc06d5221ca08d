// Package regularfile opens files that others have put there. A pipe without a writer, or a device, would block a plain open
// or read without end, and no signal ends that. Such files are refused here at once.
package regularfile

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNot says that there is something else than a regular file: a folder, a pipe, a socket or a device.
var ErrNot = errors.New("not a regular file")

// Open opens a file for reading, as os.Open does.
func Open(name string) (*os.File, error) {
	return regular(os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0))
}

// OpenIn opens a file below root for reading, as root.Open does.
func OpenIn(root *os.Root, name string) (*os.File, error) {
	return regular(root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0))
}

// regular closes what is no regular file. Opening without blocking makes no difference to one that is.
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
