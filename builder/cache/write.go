package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/internal/atomicfile"
)

// Writer takes in one blob, hashing it as it comes. Commit, Discard or, for a partial, Suspend must follow.
type Writer struct {
	cache *Cache
	file  *atomicfile.File
	hash  hash.Hash
	size  int64
	ended bool // by Commit, Suspend or Discard
}

// Create starts a blob that cannot be continued when this process is killed.
func (c *Cache) Create() (*Writer, error) {
	f, err := atomicfile.Create(c.temp(), unfinished)
	if err != nil {
		return nil, fmt.Errorf("write to the cache: %w", err)
	}
	return &Writer{cache: c, file: f, hash: sha256.New()}, nil
}

// lockPoll is how often a partial that another process is fetching is looked at.
const lockPoll = 100 * time.Millisecond

// Continue opens the partial with a key, a file name that stands for what is being fetched. It holds what has arrived so
// far, in this process or in one that was killed; Size says how much. While another one is fetching it, Continue waits,
// until ctx ends; after that the cache may have the whole blob.
func (c *Cache) Continue(ctx context.Context, key string) (*Writer, error) {
	path := filepath.Join(c.partials(), key)
	f, err := openLocked(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("write to the cache: %w", err)
	}
	w := &Writer{cache: c, file: &atomicfile.File{File: f}, hash: sha256.New()}
	if w.size, err = io.Copy(w.hash, f); err != nil {
		return nil, errors.Join(fmt.Errorf("read what arrived before: %w", err), w.Suspend())
	}
	return w, nil
}

// openLocked opens or makes a file that this open file alone has locked.
func openLocked(ctx context.Context, path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && sameFile(f, path) {
			return f, nil
		}
		_ = f.Close()
		switch {
		case err == nil: // whoever had it has moved it into its place, or pruned it
			continue
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lockPoll):
		}
	}
}

func sameFile(f *os.File, path string) bool {
	named, err := os.Stat(path)
	if err != nil {
		return false
	}
	opened, err := f.Stat()
	return err == nil && os.SameFile(named, opened)
}

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	w.hash.Write(p[:n])
	w.size += int64(n)
	if err != nil {
		return n, fmt.Errorf("write to the cache: %w", err)
	}
	return n, nil
}

// Size is the number of bytes that the writer has, with those that a partial had already.
func (w *Writer) Size() int64 { return w.size }

// Restart drops the content and begins anew.
func (w *Writer) Restart() error {
	w.hash.Reset()
	w.size = 0
	_, err := w.file.Seek(0, io.SeekStart)
	if err = errors.Join(err, w.file.Truncate(0)); err != nil {
		return fmt.Errorf("write to the cache: %w", err)
	}
	return nil
}

// Commit keeps the blob under its digest and returns that. If want is not empty and another digest came out, nothing is
// kept and the error wraps ErrMismatch.
func (w *Writer) Commit(want string) (string, error) {
	defer w.Discard()
	got := hex.EncodeToString(w.hash.Sum(nil))
	if want != "" && got != want {
		return "", fmt.Errorf("got sha256 %s in %d bytes, want %s: %w", got, w.size, want, ErrMismatch)
	}
	now := time.Now()
	if err := os.Chtimes(w.file.Name(), now, now); err != nil { // a partial may be older than this use
		return "", fmt.Errorf("keep blob %s in the cache: %w", got, err)
	}
	taken, err := w.file.Stat()
	if err != nil {
		return "", fmt.Errorf("keep blob %s in the cache: %w", got, err)
	}
	// Not synced: another process hashes a blob again when it packs it, and one that a loss of power has damaged is fetched
	// anew.
	if err := w.file.Place(w.cache.Path(got), 0o644); err != nil {
		return "", fmt.Errorf("keep blob %s in the cache: %w", got, err)
	}
	w.ended = true
	w.cache.taken.Store(got, taken)
	return got, nil
}

// Suspend leaves a partial as it is, to be continued. After Commit or Discard it does nothing.
func (w *Writer) Suspend() error {
	if w.ended {
		return nil
	}
	w.ended = true
	if err := w.file.Close(); err != nil {
		return fmt.Errorf("write to the cache: %w", err)
	}
	return nil
}

// Discard drops what was written; after Commit or Suspend it does nothing.
func (w *Writer) Discard() {
	if w.ended {
		return
	}
	w.ended = true
	// Removed while it is locked: from then on somebody else may be writing a file of the same name.
	_ = os.Remove(w.file.Name())
	_ = w.file.Close()
}
