package bundle

import (
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// FS returns the files of the archive. Reads are verified as by OpenEntry. Folders cannot be opened, but fs.Stat finds them.
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

// Stat implements fs.StatFS. It reads the index alone.
func (f archiveFS) Stat(name string) (fs.FileInfo, error) {
	if e, ok := f.archive.Entry(name); ok && fs.ValidPath(name) {
		return archiveFile{entry: e}, nil
	}
	if fs.ValidPath(name) && f.archive.hasFolder(name) {
		return folderInfo(path.Base(name)), nil
	}
	return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
}

func (a *Archive) hasFolder(name string) bool {
	return slices.ContainsFunc(a.Index.Entries, func(e Entry) bool { return strings.HasPrefix(e.Path, name+"/") })
}

// folderInfo is the fs.FileInfo of a folder with this name. Archives keep no modes of folders.
type folderInfo string

func (f folderInfo) Name() string     { return string(f) }
func (folderInfo) Size() int64        { return 0 }
func (folderInfo) Mode() fs.FileMode  { return fs.ModeDir | 0o755 }
func (folderInfo) ModTime() time.Time { return epoch }
func (folderInfo) IsDir() bool        { return true }
func (folderInfo) Sys() any           { return nil }

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
