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

	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/filelock"
	"github.com/sealift/sealift/internal/poll"
)

// Writer writes one blob and hashes it. End it with Commit, Discard or, for a partial, Suspend.
type Writer struct {
	cache *Cache
	file  *atomicfile.File
	hash  hash.Hash
	size  int64
	ended bool // by Commit, Suspend or Discard
}

// Create starts a blob that cannot be resumed after a kill.
func (c *Cache) Create() (*Writer, error) {
	f, err := atomicfile.Create(c.temp(), unfinished)
	if err != nil {
		return nil, fmt.Errorf("write to the cache: %w", err)
	}
	return &Writer{cache: c, file: f, hash: sha256.New()}, nil
}

// lockPoll is the time between two tries to lock a partial that another process is fetching.
const lockPoll = 100 * time.Millisecond

// Continue opens the partial with a key, a file name for the fetched content. It contains what this or a killed process has
// received; Size returns how much. If another process is fetching it, Continue waits until that ends or ctx ends. The cache
// may then already have the complete blob.
func (c *Cache) Continue(ctx context.Context, key string) (*Writer, error) {
	path := filepath.Join(c.partials(), key)
	f, err := openLocked(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("write to the cache: %w", err)
	}
	w := &Writer{cache: c, file: &atomicfile.File{File: f}, hash: sha256.New()}
	if w.size, err = io.Copy(w.hash, f); err != nil {
		return nil, errors.Join(fmt.Errorf("read the partial: %w", err), w.Suspend())
	}
	return w, nil
}

// openLocked opens or creates a file and locks it exclusively.
func openLocked(ctx context.Context, path string) (*os.File, error) {
	var locked *os.File
	err := poll.Until(ctx, lockPoll, nil, func(context.Context) (bool, error) {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return false, err
		}
		done, err := filelock.Attempt(f)
		if done && filelock.HasName(f, os.Stat) {
			locked = f
			return true, nil
		}
		_ = f.Close() // if locked, the process that held the lock moved or pruned the file
		return false, err
	})
	return locked, err
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

// Size returns the number of bytes written, including those of the partial.
func (w *Writer) Size() int64 { return w.size }

// Restart drops the content and starts again at the first byte.
func (w *Writer) Restart() error {
	w.hash.Reset()
	w.size = 0
	_, err := w.file.Seek(0, io.SeekStart)
	if err = errors.Join(err, w.file.Truncate(0)); err != nil {
		return fmt.Errorf("write to the cache: %w", err)
	}
	return nil
}

// Commit stores the blob and returns its digest. If want is not empty and differs from the digest, Commit stores nothing
// and the error wraps ErrMismatch.
func (w *Writer) Commit(want string) (string, error) {
	defer w.Discard()
	got := hex.EncodeToString(w.hash.Sum(nil))
	if want != "" && got != want {
		return "", fmt.Errorf("got sha256 %s in %d bytes, want %s: %w", got, w.size, want, ErrMismatch)
	}
	now := time.Now()
	if err := os.Chtimes(w.file.Name(), now, now); err != nil { // a partial may be older than this use
		return "", fmt.Errorf("store blob %s in the cache: %w", got, err)
	}
	taken, err := w.file.Stat()
	if err != nil {
		return "", fmt.Errorf("store blob %s in the cache: %w", got, err)
	}
	// No sync: other processes hash a blob again when they pack it. A blob damaged by a power failure is fetched again.
	if err := w.file.Place(w.cache.Path(got), 0o644); err != nil {
		return "", fmt.Errorf("store blob %s in the cache: %w", got, err)
	}
	w.ended = true
	w.cache.taken.Store(got, taken)
	return got, nil
}

// Suspend keeps a partial to be resumed. After Commit or Discard it does nothing.
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

// Discard drops the content. After Commit or Suspend it does nothing.
func (w *Writer) Discard() {
	if w.ended {
		return
	}
	w.ended = true
	// Remove the file while it is locked. Later, another process may be writing a file of the same name.
	_ = os.Remove(w.file.Name())
	_ = w.file.Close()
}
