package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/filelock"
)

// CheckOwn refuses a path that users other than root can write or redirect. It may be missing.
func CheckOwn(path string) error {
	f, err := OpenFolder(path)
	for ; errors.Is(err, fs.ErrNotExist); f, err = OpenFolder(path) {
		path = filepath.Dir(path)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if f.shared || !f.trusted {
		return f.notOwn()
	}
	return nil
}

// Own resolves the path of a file that only root, or the user who runs sealift, can have created or can change.
func Own(path string) (resolved string, err error) {
	f, name, err := locate(path, true)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if f.shared || !f.trusted {
		return "", f.notOwn()
	}
	info, err := f.Lstat(name)
	if err == nil && (!ours(info) || info.Mode().Perm()&0o022 != 0) {
		uid, _ := Owner(info)
		err = fmt.Errorf("%s belongs to user %d with mode %v; make it writable only for root", filepath.Join(f.Path(), name), uid, info.Mode())
	}
	if err != nil {
		return "", err
	}
	return filepath.Join(f.Path(), name), nil
}

// checkOwn refuses a folder in which others can replace what root makes.
func (f *Folder) checkOwn() error {
	if f.trusted {
		return nil
	}
	return f.notOwn()
}

func (f *Folder) notOwn() error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	uid, _ := Owner(info)
	return fmt.Errorf("%s belongs to user %d with mode %v, or is in a folder of others: its content %w; make it writable only for root, or name another folder", f.Path(), uid, info.Mode(), ErrUnsafe)
}

// TempFolder creates a temporary folder, as atomicfile.MkdirTemp does, where nobody else can replace it. So its path is safe.
func TempFolder(dir, pattern string) (made *atomicfile.Folder, err error) {
	err = temporary(dir, func(dir string) error {
		made, err = atomicfile.MkdirTemp(dir, pattern)
		return err
	})
	return made, err
}

// MkdirTemp is os.MkdirTemp where nobody else can replace the folder. So its path is safe.
func MkdirTemp(dir, pattern string) (made string, err error) {
	err = temporary(dir, func(dir string) error {
		made, err = os.MkdirTemp(dir, pattern)
		return err
	})
	return made, err
}

func temporary(dir string, do func(dir string) error) error {
	f, err := OpenFolder(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.checkOwn(); err != nil {
		return err
	}
	return do(f.Path())
}

// Nameless creates a file in a folder that disappears when this process ends, however that happens.
func Nameless(dir string) (*os.File, error) {
	f, err := OpenFolder(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	file, err := f.Create(".sealift-nameless.*")
	if err != nil {
		return nil, err
	}
	if err := f.Remove(filepath.Base(file.Name())); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	// The lock protected the name, which is gone. Databases lock the file themselves, by another descriptor.
	if err := filelock.Unlock(file.File); err != nil {
		return nil, errors.Join(fmt.Errorf("unlock a temporary file in %s: %w", dir, err), file.Close())
	}
	return file.File, nil
}

// OpenRoot is os.OpenRoot of a folder.
func OpenRoot(path string) (*os.Root, error) {
	f, err := OpenFolder(path)
	if err != nil {
		return nil, err
	}
	return f.root, nil
}
