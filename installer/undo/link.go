package undo

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/internal/atomicfile"
)

// linkOf reads where a symbolic link leads. Other files lead nowhere.
func linkOf(name string) (string, error) {
	info, err := os.Lstat(name)
	if err != nil || info.Mode().Type() != fs.ModeSymlink {
		return "", err
	}
	return os.Readlink(name)
}

// link makes a symbolic link again, and returns the file to which it leads, for the content. A file that was no link is its own.
func (f File) link(name string) (file string, err error) {
	if f.Link == "" {
		return name, nil
	}
	if now, err := linkOf(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	} else if now != f.Link {
		if err := replaceByLink(name, f.Link); err != nil {
			return "", err
		}
	}
	file, err = filepath.EvalSymlinks(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	if filepath.IsAbs(f.Link) {
		return f.Link, nil
	}
	return filepath.Join(filepath.Dir(name), f.Link), nil
}

func replaceByLink(name, link string) error {
	folder := filepath.Dir(name)
	if err := atomicfile.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	temporary := filepath.Join(folder, "."+filepath.Base(name)+".link")
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a run that was killed
		return err
	}
	if err := os.Symlink(link, temporary); err != nil {
		return err
	}
	if err := os.Rename(temporary, name); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return atomicfile.SyncDir(folder)
}
