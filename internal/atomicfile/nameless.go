package atomicfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Nameless creates a file without a name on the file system of dir. The kernel removes it when its last descriptor is closed, and so after
// a kill, too.
func Nameless(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE, 0o600)
	if !errors.Is(err, unix.EOPNOTSUPP) {
		return f, err
	}
	if f, err = os.CreateTemp(dir, "nameless-*"); err != nil { // NFS, for one: it has a name for a moment
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
