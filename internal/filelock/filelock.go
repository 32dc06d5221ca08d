// Package filelock locks open files against other processes and other open files of this one (flock(2)). Closing the file releases the
// lock, and so does the end of the process, however it ends. The package never removes a file that it locked.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/internal/poll"
)

// ErrLocked means that a lock of another process is in the way.
var ErrLocked = errors.New("another process has locked")

// pollInterval is the pause before Wait tries again. Many locks are held for milliseconds.
const pollInterval = 10 * time.Millisecond

// Lock locks f exclusively. It waits, without end, while another process has any lock on it.
func Lock(f *os.File) error { return flock(f, unix.LOCK_EX) }

// LockShared locks f together with others that call LockShared. It waits, without end, while another process has locked f exclusively.
func LockShared(f *os.File) error { return flock(f, unix.LOCK_SH) }

// TryLock locks f exclusively, or returns ErrLocked if another process has any lock on it.
func TryLock(f *os.File) error { return flock(f, unix.LOCK_EX|unix.LOCK_NB) }

// Unlock releases the lock of a file that stays open.
func Unlock(f *os.File) error { return flock(f, unix.LOCK_UN) }

// Wait locks f exclusively, and waits until ctx ends while another process has any lock on it.
func Wait(ctx context.Context, f *os.File) error {
	return poll.Until(ctx, pollInterval, nil, func(context.Context) (bool, error) { return Attempt(f) })
}

// Attempt is TryLock as poll.Until calls it: it marks ErrLocked as transient.
func Attempt(f *os.File) (locked bool, err error) {
	err = TryLock(f)
	if errors.Is(err, ErrLocked) {
		err = poll.NotYet(err)
	}
	return err == nil, err
}

// WaitFile opens or creates the file at path and locks it as Wait does. Call unlock to release the lock.
func WaitFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := Wait(ctx, f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// IsLocked reports whether another process has locked f exclusively. If not, f has a shared lock afterwards.
func IsLocked(f *os.File) (bool, error) {
	err := flock(f, unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, ErrLocked) {
		return true, nil
	}
	return false, err
}

// IsFileLocked reports whether a process has locked the file at path exclusively. A missing file is not locked.
func IsFileLocked(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	return IsLocked(f)
}

// HasName reports whether the name of an open file still refers to it: the process that held the lock before may have removed or
// replaced the file. stat stats the name, as os.Stat does.
func HasName(f *os.File, stat func(name string) (fs.FileInfo, error)) bool {
	named, err := stat(f.Name())
	if err != nil {
		return false
	}
	opened, err := f.Stat()
	return err == nil && os.SameFile(named, opened)
}

func flock(f *os.File, how int) error {
	for {
		switch err := unix.Flock(int(f.Fd()), how); {
		case err == nil:
			return nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return fmt.Errorf("%w %s", ErrLocked, f.Name())
		case !errors.Is(err, unix.EINTR):
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}
