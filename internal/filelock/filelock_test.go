package filelock_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/filelock"
)

// open opens the file at path again: locks belong to open files, so that one process can stand for two.
func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestTryLockRefusesLockedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, second := open(t, path), open(t, path)
	if err := filelock.Lock(first); err != nil {
		t.Fatal(err)
	}
	if err := filelock.TryLock(second); !errors.Is(err, filelock.ErrLocked) || !strings.Contains(err.Error(), path) {
		t.Errorf("a locked file: %v", err)
	}
	if locked, err := filelock.IsLocked(second); !locked || err != nil {
		t.Errorf("IsLocked: %v, %v", locked, err)
	}
	if err := filelock.Unlock(first); err != nil {
		t.Fatal(err)
	}
	if err := filelock.TryLock(second); err != nil {
		t.Errorf("an unlocked file: %v", err)
	}
}

func TestSharedLocksKeepOutExclusiveOnes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, second := open(t, path), open(t, path)
	for _, f := range []*os.File{first, second} {
		if err := filelock.LockShared(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := filelock.TryLock(open(t, path)); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("with two readers: %v", err)
	}
	if locked, err := filelock.IsFileLocked(path); locked || err != nil {
		t.Errorf("a shared lock counts as exclusive: %v, %v", locked, err)
	}
}

func TestWaitFileWaitsForTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if locked, err := filelock.IsFileLocked(path); locked || err != nil {
		t.Errorf("a missing file: %v, %v", locked, err)
	}
	unlock, err := filelock.WaitFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := filelock.WaitFile(ctx, path); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("a wait that ended: %v", err)
	}
	got := make(chan error, 1)
	go func() {
		again, err := filelock.WaitFile(t.Context(), path)
		if err == nil {
			again()
		}
		got <- err
	}()
	unlock()
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func TestHasNameSeesReplacedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f := open(t, path)
	if !filelock.HasName(f, os.Stat) {
		t.Error("an open file lost its name")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if filelock.HasName(f, os.Stat) {
		t.Error("a removed file has its name")
	}
	open(t, path)
	if filelock.HasName(f, os.Stat) {
		t.Error("a replaced file has its name")
	}
}
