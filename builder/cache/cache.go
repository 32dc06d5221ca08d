// Package cache keeps what builds have fetched, addressed by the sha256 of the content, so that the same bytes are
// fetched once whoever asks for them. It also remembers small facts about mutable names, such as a URL's ETag.
//
// A file appears under its final name only when it is complete, verified and synced: concurrent builds may share a cache,
// and a killed build leaves nothing that looks finished. The cache never fetches.
package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/atomicfile"
)

// ErrMismatch says that content is not what its digest or size promised.
var ErrMismatch = errors.New("content does not match")

// Cache is a directory of content-addressed files.
type Cache struct{ dir string }

// DefaultDir is where the cache lies unless the user says otherwise: sealift below the user's cache directory, which
// follows the XDG base directory specification.
func DefaultDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache directory: %w; name one with --cache", err)
	}
	return filepath.Join(dir, "sealift"), nil
}

// Open makes the directories that a cache needs below dir, removes what killed processes left there unfinished, and
// returns the cache.
func Open(dir string) (*Cache, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open cache %s: %w", dir, err)
	}
	c := &Cache{dir: abs}
	for _, d := range []string{c.blobs(), c.temp()} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, fmt.Errorf("open cache: %w; choose a directory you may write to with --cache", err)
		}
	}
	if err := atomicfile.Sweep(c.temp(), unfinished); err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	return c, nil
}

// unfinished is the pattern of names of blobs that are being written.
const unfinished = "blob-*"

func (c *Cache) blobs() string { return filepath.Join(c.dir, "blobs", "sha256") }
func (c *Cache) temp() string  { return filepath.Join(c.dir, "tmp") }

// Path is where the blob with this digest lies if the cache has it.
func (c *Cache) Path(digest string) string { return filepath.Join(c.blobs(), digest) }

// Sub returns a directory below the cache for a tool that keeps its own files, and makes it.
func (c *Cache) Sub(elements ...string) (string, error) {
	dir := filepath.Join(append([]string{c.dir}, elements...)...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make a directory in the cache: %w", err)
	}
	return dir, nil
}

// Stat returns the size of a blob in bytes, and whether the cache has it. The content is not read.
func (c *Cache) Stat(digest string) (int64, bool) {
	info, err := os.Stat(c.Path(digest))
	if err != nil || !info.Mode().IsRegular() {
		return 0, false
	}
	return info.Size(), true
}

// Open opens a blob for reading. The caller verifies what it reads.
func (c *Cache) Open(digest string) (*os.File, error) {
	f, err := os.Open(c.Path(digest))
	if err != nil {
		return nil, fmt.Errorf("open cached blob: %w", err)
	}
	return f, nil
}

// Read returns a whole small blob of at most limit bytes after verifying it. A blob that fails is forgotten, so that the
// next fetch brings it anew; the error then wraps ErrMismatch. A blob that the cache lacks gives fs.ErrNotExist.
func (c *Cache) Read(digest string, limit int64) ([]byte, error) {
	f, err := c.Open(digest)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read cached blob: %w", err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("cached blob %s is larger than %d bytes", digest, limit)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != digest {
		return nil, errors.Join(fmt.Errorf("cached blob %s: %w its name", digest, ErrMismatch), c.forget(digest))
	}
	return data, nil
}

// Verify reads a blob and says whether it is what its name says. A damaged blob is forgotten and gives ErrMismatch.
func (c *Cache) Verify(digest string) error {
	f, err := c.Open(digest)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return fmt.Errorf("read cached blob: %w", err)
	}
	if hex.EncodeToString(h.Sum(nil)) != digest {
		return errors.Join(fmt.Errorf("cached blob %s: %w its name", digest, ErrMismatch), c.forget(digest))
	}
	return nil
}

func (c *Cache) forget(digest string) error {
	if err := os.Remove(c.Path(digest)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove damaged blob: %w", err)
	}
	return nil
}

// Writer takes in one blob, hashing it as it comes.
type Writer struct {
	cache *Cache
	file  *atomicfile.File
	hash  hash.Hash
	size  int64
}

// Create starts a blob whose digest is known when it ends. Discard or Commit must follow.
func (c *Cache) Create() (*Writer, error) {
	f, err := atomicfile.Create(c.temp(), unfinished)
	if err != nil {
		return nil, fmt.Errorf("write to the cache: %w", err)
	}
	return &Writer{cache: c, file: f, hash: sha256.New()}, nil
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

// Size is the number of bytes written so far.
func (w *Writer) Size() int64 { return w.size }

// Commit keeps the blob under its digest and returns that. If want is not empty and another digest came out, nothing is
// kept and the error wraps ErrMismatch.
func (w *Writer) Commit(want string) (string, error) {
	defer w.Discard()
	got := hex.EncodeToString(w.hash.Sum(nil))
	if want != "" && got != want {
		return "", fmt.Errorf("got sha256 %s in %d bytes, want %s: %w", got, w.size, want, ErrMismatch)
	}
	if err := w.file.Commit(w.cache.Path(got), 0o644); err != nil {
		return "", fmt.Errorf("keep blob %s in the cache: %w", got, err)
	}
	return got, nil
}

// Discard drops what was written; after Commit it does nothing.
func (w *Writer) Discard() { w.file.Discard() }

// Remember keeps a fact about a mutable name. Kind is a folder name, key may be any text, fact is encoded as JSON.
func (c *Cache) Remember(kind, key string, fact any) error {
	data, err := json.Marshal(record{Key: key, Fact: fact})
	if err != nil {
		return fmt.Errorf("remember %s %s: %w", kind, key, err)
	}
	path := c.recordPath(kind, key)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("remember %s %s: %w", kind, key, err)
	}
	if err := atomicfile.Write(path, data); err != nil {
		return fmt.Errorf("remember %s %s: %w", kind, key, err)
	}
	return nil
}

// Recall fills fact with what was remembered and says whether there was anything that can be read.
func (c *Cache) Recall(kind, key string, fact any) bool {
	data, err := os.ReadFile(c.recordPath(kind, key))
	if err != nil {
		return false
	}
	r := record{Fact: fact}
	return json.Unmarshal(data, &r) == nil && r.Key == key
}

// record carries its key in clear, since the file name is only its hash.
type record struct {
	Key  string `json:"key"`
	Fact any    `json:"fact"`
}

func (c *Cache) recordPath(kind, key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(c.dir, kind, hex.EncodeToString(sum[:])+".json")
}
