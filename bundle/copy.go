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

const (
	// copyBuffer is the size of one read when bytes pass through this process.
	copyBuffer = 1 << 20
	// copyStep is the number of bytes that the kernel copies between two checks of the context.
	copyStep = 64 << 20
)

// copyRange copies size bytes of src from off on. The kernel copies if both ends are files.
func copyRange(ctx context.Context, w io.Writer, src io.ReaderAt, off, size int64, buf []byte) error {
	to, isFile := w.(*os.File)
	from, fromFile := src.(syscall.Conn)
	if isFile && fromFile {
		done, err := copyInKernel(ctx, to, from, off, size)
		if err != nil || done == size {
			return err
		}
		off, size = off+done, size-done
	}
	for size > 0 {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		part := buf[:min(int64(len(buf)), size)]
		n, err := src.ReadAt(part, off)
		if n < len(part) {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("%d bytes are missing: %w", size-int64(n), err)
		}
		if _, err := w.Write(part); err != nil {
			return err
		}
		off, size = off+int64(n), size-int64(n)
	}
	return nil
}

// copyInKernel copies between two files at the current offset of to. It returns the number of copied bytes, which is
// smaller if the file systems do not support it. Errors are left to the copy of the rest.
func copyInKernel(ctx context.Context, to *os.File, from syscall.Conn, off, size int64) (done int64, err error) {
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
				n, copyErr = unix.CopyFileRange(int(in), &at, int(out), nil, int(min(copyStep, size-done)), 0)
			})
		})
		if err := errors.Join(inErr, outErr); err != nil {
			return done, err
		}
		if copyErr != nil && !errors.Is(copyErr, unix.EINTR) || copyErr == nil && n == 0 {
			return done, nil
		}
		done += int64(max(n, 0))
	}
	return done, nil
}
