package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// copyBuffer is the size of one read when bytes pass through this process.
const copyBuffer = 1 << 20

// rangeCopier copies ranges one after the other to w.
type rangeCopier struct {
	w    io.Writer
	at   int64 // in the file, if w is one
	disk writeback
	buf  []byte
}

func newRangeCopier(w io.Writer) *rangeCopier {
	c := &rangeCopier{w: w, buf: make([]byte, copyBuffer)}
	if f, ok := w.(*os.File); ok {
		if at, err := f.Seek(0, io.SeekCurrent); err == nil { // not a pipe
			c.at, c.disk = at, writeback{f, at}
		}
	}
	return c
}

// wrote notes that n bytes more were written.
func (c *rangeCopier) wrote(n int64) {
	c.at += n
	c.disk.upTo(c.at)
}

// copy copies size bytes of src from off on. The kernel copies if both ends are files.
func (c *rangeCopier) copy(ctx context.Context, src io.ReaderAt, off, size int64) error {
	to, isFile := c.w.(*os.File)
	from, fromFile := src.(syscall.Conn)
	if isFile && fromFile {
		done, err := c.copyInKernel(ctx, to, from, off, size)
		if err != nil || done == size {
			return err
		}
		off, size = off+done, size-done
	}
	for size > 0 {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		part := c.buf[:min(int64(len(c.buf)), size)]
		n, err := src.ReadAt(part, off)
		if n < len(part) {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("%d bytes are missing: %w", size-int64(n), err)
		}
		if _, err := c.w.Write(part); err != nil {
			return err
		}
		c.wrote(int64(n))
		off, size = off+int64(n), size-int64(n)
	}
	return nil
}

// copyInKernel copies between two files at the current offset of to. It returns the number of copied bytes, which is
// smaller if the file systems do not support it. Errors are left to the copy of the rest.
func (c *rangeCopier) copyInKernel(ctx context.Context, to *os.File, from syscall.Conn, off, size int64) (done int64, err error) {
	source, err := from.SyscallConn()
	if err != nil {
		return 0, err
	}
	target, err := to.SyscallConn()
	if err != nil {
		return 0, err
	}
	for done < size {
		if err := ctx.Err(); err != nil {
			return done, context.Cause(ctx)
		}
		at, n := off+done, 0
		var copyErr, outErr error
		inErr := source.Control(func(in uintptr) {
			outErr = target.Control(func(out uintptr) {
				n, copyErr = unix.CopyFileRange(int(in), &at, int(out), nil, int(min(writebackSize, size-done)), 0)
			})
		})
		if err := errors.Join(inErr, outErr); err != nil {
			return done, err
		}
		if copyErr != nil && !errors.Is(copyErr, unix.EINTR) || copyErr == nil && n == 0 {
			return done, nil
		}
		done += int64(max(n, 0))
		c.wrote(int64(max(n, 0)))
	}
	return done, nil
}

// writebackSize is the number of bytes after which the kernel is asked to start writing to the disk. So the disk works while
// the rest is made, and the final sync is short.
const writebackSize = 8 << 20

// writeback starts writing a file to the disk while it grows. The zero value does nothing.
type writeback struct {
	file    *os.File
	started int64 // offset up to which the kernel was asked
}

// upTo is called with the offset up to which the file is written. It only starts the writeback: the final sync reports errors.
func (b *writeback) upTo(off int64) {
	if b.file != nil && off-b.started >= writebackSize {
		_ = unix.SyncFileRange(int(b.file.Fd()), b.started, off-b.started, unix.SYNC_FILE_RANGE_WRITE)
		b.started = off
	}
}
