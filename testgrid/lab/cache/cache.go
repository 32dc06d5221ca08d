// Package cache keeps what the lab has built, one folder per component, so that a fresh clone need not build it again.
//
// A folder gets its final name only when it is complete. If two processes want the same folder, one builds it. The cache
// never changes or deletes a complete folder.
package cache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/filelock"
)

// Env names the variable that moves the cache.
const Env = "SEALIFT_LAB_CACHE"

// Dir is a cache on disk. It is safe for use by many goroutines and processes.
type Dir struct {
	root string
}

// DefaultPath is $SEALIFT_LAB_CACHE, or sealift/lab in the user's cache folder.
func DefaultPath() (string, error) {
	if path := os.Getenv(Env); path != "" {
		return filepath.Abs(path)
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache folder: %w; set %s", err, Env)
	}
	return filepath.Join(base, "sealift", "lab"), nil
}

// Open opens the cache at path, or at DefaultPath if path is empty. It creates the folder if needed.
func Open(path string) (*Dir, error) {
	if path == "" {
		var err error
		if path, err = DefaultPath(); err != nil {
			return nil, err
		}
	}
	for _, dir := range []string{path, filepath.Join(path, "locks")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("make the lab's cache: %w", err)
		}
	}
	return &Dir{root: path}, nil
}

// Path returns the path of the folder called key, whether it exists or not.
func (d *Dir) Path(key string) string { return filepath.Join(d.root, key) }

// Has reports whether the folder called key is complete.
func (d *Dir) Has(key string) bool {
	_, err := os.Stat(d.Path(key))
	return err == nil
}

// Ensure returns the folder called key and calls build to fill it if it is missing. build works in a temporary folder, which is
// renamed after build has succeeded and the bytes are on the disk. The next build removes leftovers of a killed build.
func (d *Dir) Ensure(ctx context.Context, key string, build func(ctx context.Context, dir string) error) (string, error) {
	if key != filepath.Base(key) || key == "." || key == ".." {
		return "", fmt.Errorf("cache key %q is not a plain file name", key)
	}
	final := d.Path(key)
	if d.Has(key) {
		return final, nil
	}
	unlock, err := d.Lock(ctx, key)
	if err != nil {
		return "", err
	}
	defer unlock()
	if d.Has(key) {
		return final, nil
	}
	partial := filepath.Join(d.root, ".partial-"+key)
	if err := removeTree(partial); err != nil {
		return "", fmt.Errorf("remove leftovers of an earlier build of %s: %w", key, err)
	}
	if err := os.Mkdir(partial, 0o755); err != nil {
		return "", fmt.Errorf("make the folder for %s: %w", key, err)
	}
	if err := build(ctx, partial); err != nil {
		return "", errors.Join(fmt.Errorf("make %s: %w", key, err), removeTree(partial))
	}
	if err := atomicfile.SyncAll(partial); err != nil {
		return "", fmt.Errorf("write %s to disk: %w", key, err)
	}
	if err := os.Rename(partial, final); err != nil {
		return "", fmt.Errorf("finish %s: %w", key, err)
	}
	return final, nil
}

// Lock acquires the lock called name. It waits for other goroutines and processes until ctx ends. The kernel releases the lock
// if its holder dies.
func (d *Dir) Lock(ctx context.Context, name string) (unlock func(), err error) {
	return filelock.WaitFile(ctx, filepath.Join(d.root, "locks", name+".lock"))
}

// removeTree removes dir, even if folders in it are read-only, as in the tree of an operating system.
func removeTree(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	walkErr := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return err
	})
	return errors.Join(walkErr, os.RemoveAll(dir))
}
