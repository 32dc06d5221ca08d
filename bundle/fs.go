package bundle

import (
	"io"
	"io/fs"
	"path"
	"time"
)

// FS returns the files of the archive. Reads are verified as by OpenEntry. Folders cannot be opened.
func (a *Archive) FS() fs.FS { return archiveFS{a} }

type archiveFS struct{ archive *Archive }

func (f archiveFS) Open(name string) (fs.File, error) {
	e, ok := f.archive.Entry(name)
	if !fs.ValidPath(name) || !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	content, err := f.archive.OpenEntry(name)
	if err != nil {
		return nil, err
	}
	return archiveFile{content, e}, nil
}

// archiveFile is an open entry and its own fs.FileInfo.
type archiveFile struct {
	io.ReadCloser
	entry Entry
}

func (f archiveFile) Stat() (fs.FileInfo, error) { return f, nil }
func (f archiveFile) Name() string               { return path.Base(f.entry.Path) }
func (f archiveFile) Size() int64                { return f.entry.Size }
func (f archiveFile) Mode() fs.FileMode          { return fs.FileMode(f.entry.Mode) }
func (f archiveFile) ModTime() time.Time         { return epoch }
func (f archiveFile) IsDir() bool                { return false }
func (f archiveFile) Sys() any                   { return f.entry }
