package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// CreateIn is Create in an open folder: nobody who replaces a folder on the path can redirect the file. Commit and Place take a
// name in that folder, which must stay open until then. A symbolic link of that name is replaced.
func CreateIn(dir *os.Root, pattern string) (*File, error) {
	before, after, _ := cutLast(pattern, "*")
	return create(dir.Name(), func() (*File, error) {
		for try := 0; ; try++ {
			name := before + strconv.FormatUint(uint64(rand.Uint32()), 10) + after
			f, err := dir.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
			if errors.Is(err, fs.ErrExist) && try < attempts {
				continue
			}
			return &File{File: f, dir: dir}, err
		}
	})
}

// FillIn is Fill in an open folder.
func FillIn(dir *os.Root, name string, mode os.FileMode, fill func(*os.File) error) error {
	if err := checkReplaceable(name, (&File{dir: dir}).stat); err != nil { // before fill writes anything
		return err
	}
	if err := SweepIn(dir, temporaryFor(name)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	f, err := CreateIn(dir, temporaryFor(name))
	if err != nil {
		return err
	}
	defer f.Discard()
	if err := fill(f.File); err != nil {
		return err
	}
	return f.Commit(name, mode)
}

// SweepIn is Sweep in an open folder.
func SweepIn(dir *os.Root, pattern string) error {
	before, after, ok := cutLast(pattern, "*")
	if !ok {
		return fmt.Errorf("sweep %s: pattern %q has no *", dir.Name(), pattern)
	}
	return sweep(dir, func(name string) bool { return isMadeFrom(name, before, after) })
}

// SweepAllIn removes every abandoned temporary file of this package in an open folder, whatever its target was.
func SweepAllIn(dir *os.Root) error {
	return sweep(dir, func(name string) bool {
		before, number, ok := cutLast(name, ".")
		return ok && len(before) > 1 && strings.HasPrefix(before, ".") && isNumber(number)
	})
}

// SyncIn is SyncDir of an open folder.
func SyncIn(dir *os.Root) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// stat stats a path, or a name in the open folder. There it follows a symbolic link to the regular file that replaces it.
func (f *File) stat(path string) (fs.FileInfo, error) {
	if f.dir == nil {
		return stat(path)
	}
	info, err := f.dir.Lstat(filepath.Base(path))
	if err == nil && info.Mode().Type() == fs.ModeSymlink {
		err = fs.ErrNotExist
	}
	return info, err
}

func (f *File) rename(to string) error {
	if f.dir == nil {
		return os.Rename(f.Name(), to)
	}
	return f.dir.Rename(filepath.Base(f.Name()), to)
}

func (f *File) remove() error {
	if f.dir == nil {
		return os.Remove(f.Name())
	}
	return f.dir.Remove(filepath.Base(f.Name()))
}
