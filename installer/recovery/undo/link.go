package undo

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/installer/host/files"
)

// linkOf reads where a symbolic link leads. Other files lead nowhere.
func linkOf(name string) (string, error) {
	info, err := os.Lstat(name)
	if err != nil || info.Mode().Type() != fs.ModeSymlink {
		return "", err
	}
	return os.Readlink(name)
}

// link makes a symbolic link again, and returns the file to which it leads, for the content. A file that was not a link is its own.
func (f File) link(name string) (file string, err error) {
	if f.Link == "" {
		return name, nil
	}
	if now, err := linkOf(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	} else if now != f.Link {
		if err := files.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return "", err
		}
		if err := files.Symlink(f.Link, name); err != nil {
			return "", err
		}
	}
	file, err = files.Resolve(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	if filepath.IsAbs(f.Link) { // its folder is missing, too
		return f.Link, nil
	}
	return filepath.Join(filepath.Dir(name), f.Link), nil
}
