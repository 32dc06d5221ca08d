package store

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"
)

// fileObject is an open file. All objects of one value share one descriptor, so a reader more holds no file more.
type fileObject struct {
	file   *sharedFile
	info   fs.FileInfo
	closed atomic.Bool
}

// sharedFile is closed with the last object that uses it.
type sharedFile struct {
	*os.File
	users atomic.Int64
}

func newFileObject(f *os.File, info fs.FileInfo) *fileObject {
	shared := &sharedFile{File: f}
	shared.users.Store(1)
	return &fileObject{file: shared, info: info}
}

func (f *fileObject) Size() int64     { return f.info.Size() }
func (f *fileObject) Version() string { return fileVersion(f.info) }
func (f *fileObject) SHA256() string  { return "" }

// ReadAt implements io.ReaderAt. It fails with ErrChanged if another tool has overwritten the file in place.
func (f *fileObject) ReadAt(p []byte, off int64) (n int, err error) {
	if f.closed.Load() {
		return 0, fmt.Errorf("%s: %w", f.file.Name(), fs.ErrClosed)
	}
	n, err = f.file.ReadAt(p, off)
	now, statErr := f.file.Stat()
	if statErr == nil && (now.Size() != f.info.Size() || !now.ModTime().Equal(f.info.ModTime())) {
		return 0, fmt.Errorf("%s: %w", f.file.Name(), ErrChanged)
	}
	return n, err
}

// Reopen implements Object.
func (f *fileObject) Reopen(context.Context) (Object, error) {
	for {
		users := f.file.users.Load()
		if users == 0 || f.closed.Load() {
			return nil, fmt.Errorf("reopen %s: %w", f.file.Name(), fs.ErrClosed)
		}
		if f.file.users.CompareAndSwap(users, users+1) {
			return &fileObject{file: f.file, info: f.info}, nil
		}
	}
}

// Close implements io.Closer.
func (f *fileObject) Close() error {
	if f.closed.Swap(true) {
		return fmt.Errorf("%s: %w", f.file.Name(), fs.ErrClosed)
	}
	if f.file.users.Add(-1) > 0 {
		return nil
	}
	return f.file.Close()
}

// fileVersion distinguishes successive files of one name. Each Put creates a new file.
func fileVersion(info fs.FileInfo) string {
	var inode uint64
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = stat.Ino
	}
	return fmt.Sprintf("%x-%x-%x", inode, info.ModTime().UnixNano(), info.Size())
}
