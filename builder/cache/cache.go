// Package cache keeps the files that builds fetch, by the sha256 of their content, so that the same bytes are fetched once.
// It also remembers small facts about mutable names, such as a URL's ETag.
//
// A file gets its final name only when it is complete and verified, so that concurrent builds can share a cache and a
// killed build leaves nothing that looks complete. The received part of a blob stays as a partial, which the next build
// resumes. Prune keeps the cache within a size: it removes the least recently used items first, and nothing that a running
// build uses. The cache never fetches.
package cache

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/sha256hex"
)

// ErrMismatch means that content does not match its digest or size.
var ErrMismatch = errors.New("content does not match")

// Cache is a directory of content-addressed files:
//
//	blobs/sha256/<digest>   complete; the modification time is the last use
//	partial/<key>           incomplete, locked by the process that fetches it
//	deflated/<digest>.*     compressed forms, see Derived
//	facts/<kind>/*.json     see Remember
//	running/*               one locked file for each process that has the cache open
//	lock                    held shared to mark a use, exclusively to remove
type Cache struct {
	dir   string
	lease *atomicfile.File
	taken sync.Map // digest to fs.FileInfo: blobs that this process hashed while writing
}

// systemDir is the parent of the default cache directory of services of root, which have no home.
const systemDir = "/var/cache"

// DefaultDir returns the default cache directory: sealift below the user's cache directory (XDG base directory
// specification), or below /var/cache for a root without a home.
func DefaultDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil && os.Geteuid() == 0 {
		dir, err = systemDir, nil
	}
	if err != nil {
		return "", fmt.Errorf("find the user's cache directory: %w; name one with --cache", err)
	}
	return filepath.Join(dir, "sealift"), nil
}

// Exists reports whether dir has a cache.
func Exists(dir string) bool {
	info, err := os.Stat((&Cache{dir: dir}).blobs())
	return err == nil && info.IsDir()
}

// Open opens the cache in dir. It creates missing directories and removes files of killed processes that cannot be resumed.
// Prune keeps everything that the caller uses until Close.
func Open(dir string) (*Cache, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open cache %s: %w", dir, err)
	}
	c := &Cache{dir: abs}
	if err := c.mark(); err != nil {
		return nil, unwritable(err)
	}
	for _, d := range []string{c.blobs(), c.temp(), c.partials(), c.running()} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, unwritable(err)
		}
	}
	if err := c.sweep(); err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	if c.lease, err = atomicfile.Create(c.running(), leases); err != nil {
		return nil, unwritable(err)
	}
	return c, nil
}

func unwritable(err error) error {
	return fmt.Errorf("open cache: %w; choose a directory you may write to with --cache", err)
}

// MakeDir makes a folder of a cache for a command that uses nothing else of it.
func MakeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return unwritable(err)
	}
	return nil
}

// The file tag marks a directory as a cache (https://bford.info/cachedir/), so that backup programs skip it.
const (
	tag     = "CACHEDIR.TAG"
	tagText = "Signature: 8a477f597d28d172789f06886806bc55\n# Written by sealift. Files of killed runs in tmp and running are removed.\n"
)

// mark creates the directory and marks it as a cache. It does not mark a directory that already has a folder tmp, because
// with --cache / that would be the system's.
func (c *Cache) mark() error {
	if _, err := os.Lstat(c.temp()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(c.dir, tag), []byte(tagText))
}

// sweep removes files of killed processes from a directory that Sealift marked.
func (c *Cache) sweep() error {
	if _, err := os.Lstat(filepath.Join(c.dir, tag)); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return errors.Join(atomicfile.Sweep(c.temp(), unfinished), atomicfile.Sweep(c.running(), leases))
}

// Close releases everything that the caller used. The end of the process does the same.
func (c *Cache) Close() { c.lease.Discard() }

// Name patterns of blobs that are being written, and of the files of running processes.
const (
	unfinished = "blob-*"
	leases     = "process-*"
)

// Dir is the directory of the cache.
func (c *Cache) Dir() string { return c.dir }

func (c *Cache) blobs() string    { return filepath.Join(c.dir, "blobs", "sha256") }
func (c *Cache) temp() string     { return filepath.Join(c.dir, "tmp") }
func (c *Cache) partials() string { return filepath.Join(c.dir, "partial") }
func (c *Cache) derived() string  { return filepath.Join(c.dir, "deflated") }
func (c *Cache) facts() string    { return filepath.Join(c.dir, "facts") }
func (c *Cache) running() string  { return filepath.Join(c.dir, "running") }

// Path returns the path of a blob in the cache.
func (c *Cache) Path(digest string) string { return filepath.Join(c.blobs(), digest) }

// Sub creates and returns a directory in the cache for a tool's own files.
func (c *Cache) Sub(elements ...string) (string, error) {
	dir := filepath.Join(append([]string{c.dir}, elements...)...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make a directory in the cache: %w", err)
	}
	return dir, nil
}

// Stat returns the size of a blob in bytes and whether the cache has it. It does not read the content or protect the blob
// from Prune; see Use.
func (c *Cache) Stat(digest string) (int64, bool) {
	info, err := os.Stat(c.Path(digest))
	if err != nil || !info.Mode().IsRegular() {
		return 0, false
	}
	return info.Size(), true
}

// Fresh reports whether this cache hashed the blob when it was written, and the file has not changed since.
func (c *Cache) Fresh(digest string) bool {
	value, ok := c.taken.Load(digest)
	if !ok {
		return false
	}
	was, ok := value.(fs.FileInfo)
	if !ok {
		return false
	}
	is, err := os.Stat(c.Path(digest))
	return err == nil && os.SameFile(was, is) && is.Size() == was.Size() && is.ModTime().Equal(was.ModTime())
}

// Open opens a blob. The caller must verify the content.
func (c *Cache) Open(digest string) (*os.File, error) {
	f, err := os.Open(c.Path(digest))
	if err != nil {
		return nil, fmt.Errorf("open cached blob: %w", err)
	}
	return f, nil
}

// Read returns a small blob of at most limit bytes after verifying it. It removes a damaged blob, so that the next build
// fetches it again, and returns an error that wraps ErrMismatch. If the cache lacks the blob, the error wraps
// fs.ErrNotExist. Reading counts as a use.
func (c *Cache) Read(digest string, limit int64) ([]byte, error) {
	c.Use(digest)
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
	if sha256hex.Of(data) != digest {
		return nil, errors.Join(fmt.Errorf("cached blob %s: %w its name", digest, ErrMismatch), c.forget(digest))
	}
	return data, nil
}

// Verify reads a blob and compares it with its digest. It removes a damaged blob and returns ErrMismatch.
func (c *Cache) Verify(digest string) error {
	f, err := c.Open(digest)
	if err != nil {
		return err
	}
	defer f.Close()
	got, _, err := sha256hex.Read(f)
	if err != nil {
		return fmt.Errorf("read cached blob: %w", err)
	}
	if got != digest {
		return errors.Join(fmt.Errorf("cached blob %s: %w its name", digest, ErrMismatch), c.forget(digest))
	}
	return nil
}

func (c *Cache) forget(digest string) error {
	if err := atomicfile.Remove(c.Path(digest)); err != nil {
		return fmt.Errorf("remove damaged blob: %w", err)
	}
	return nil
}

// FileMode is the mode of every packed file that does not come from the add-on's directory.
const FileMode fs.FileMode = 0o644

// File returns a file to pack whose content the cache has.
func (c *Cache) File(path string, content bundle.Blob) bundle.File {
	return bundle.File{
		Path: path, Mode: FileMode, Size: content.Size, SHA256: content.SHA256, Checked: c.Fresh(content.SHA256),
		Open: func() (io.ReadCloser, error) { return c.Open(content.SHA256) },
	}
}
