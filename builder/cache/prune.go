package cache

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/internal/filelock"
)

// Kind is the kind of an item.
type Kind string

// The kinds of items.
const (
	Blob     Kind = "blob"     // complete
	Partial  Kind = "partial"  // arrived in part
	Deflated Kind = "deflated" // a compressed form of a blob or of a file of an add-on
	Fact     Kind = "fact"     // a remembered fact about a mutable name
)

// Item is one file of the cache.
type Item struct {
	Kind Kind      `json:"kind"`
	Name string    `json:"name"` // the sha256 of a blob
	Size int64     `json:"size"` // bytes
	Used time.Time `json:"used"` // last

	path string
}

// Use marks a blob as used. It returns the size in bytes and whether the cache has it. Prune then keeps the blob until this
// cache is closed.
func (c *Cache) Use(digest string) (size int64, ok bool) {
	err := c.sharing(func() error {
		now := time.Now()
		return os.Chtimes(c.Path(digest), now, now)
	})
	if err != nil && !errors.Is(err, fs.ErrPermission) { // another user's cache is read-only
		return 0, false
	}
	return c.Stat(digest)
}

// Derived creates and returns the directory of compressed forms, for bundle.WriteOptions.Spool. It marks the forms of files
// with these digests as used. A form's name begins with the digest.
func (c *Cache) Derived(digests map[string]bool) (string, error) {
	dir, err := c.Sub(filepath.Base(c.derived()))
	if err != nil {
		return "", err
	}
	err = c.sharing(func() error {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		now := time.Now()
		for _, e := range entries {
			if digest, _, _ := strings.Cut(e.Name(), "."); digests[digest] {
				err = errors.Join(err, os.Chtimes(filepath.Join(dir, e.Name()), now, now))
			}
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("look for compressed forms in the cache: %w", err)
	}
	return dir, nil
}

// sharing calls mark under a shared lock, while nothing is being removed.
func (c *Cache) sharing(mark func() error) error { return c.locked(filelock.LockShared, mark) }

func (c *Cache) locked(lock func(*os.File) error, f func() error) error {
	file, err := os.OpenFile(filepath.Join(c.dir, "lock"), os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return fmt.Errorf("lock the cache: %w", err)
	}
	defer file.Close()
	if err := lock(file); err != nil {
		return fmt.Errorf("lock the cache: %w", err)
	}
	return f()
}

// List returns every item, least recently used first. It does not list the tools' own directories (Sub).
func (c *Cache) List() ([]Item, error) {
	var items []Item
	for _, place := range []struct {
		kind Kind
		dir  string
	}{{Blob, c.blobs()}, {Partial, c.partials()}, {Deflated, c.derived()}, {Fact, c.facts()}} {
		found, err := listDir(place.kind, place.dir)
		if err != nil {
			return nil, fmt.Errorf("list the cache: %w", err)
		}
		items = append(items, found...)
	}
	slices.SortFunc(items, func(a, b Item) int { return cmp.Or(a.Used.Compare(b.Used), cmp.Compare(a.path, b.path)) })
	return items, nil
}

func listDir(kind Kind, dir string) ([]Item, error) {
	var items []Item
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = e.Info(); err == nil {
				name, _ := filepath.Rel(dir, path)
				items = append(items, Item{Kind: kind, Name: name, Size: info.Size(), Used: info.ModTime(), path: path})
			}
		}
		if errors.Is(err, fs.ErrNotExist) { // removed in the meantime, or never created
			return nil
		}
		return err
	})
	return items, err
}

// PruneOptions configures Prune.
type PruneOptions struct {
	MaxSize int64     // size of the cache afterwards, in bytes; negative means no limit
	Unused  time.Time // always removes items last used before this time
	DryRun  bool      // only return what would be removed
}

// Prune removes items, least recently used first, until the cache is within MaxSize, and returns them. It keeps what other
// processes have used since they opened the cache, and what is being fetched, so the cache may stay larger.
func (c *Cache) Prune(o PruneOptions) ([]Item, error) {
	var removed []Item
	err := c.locked(filelock.Lock, func() error {
		items, err := c.List()
		if err != nil {
			return err
		}
		since, err := c.oldestRun()
		if err != nil {
			return err
		}
		var total int64
		for _, item := range items {
			total += item.Size
		}
		for _, item := range items {
			tooLarge := o.MaxSize >= 0 && total > o.MaxSize
			if !tooLarge && !item.Used.Before(o.Unused) || !item.Used.Before(since) {
				continue
			}
			gone, err := item.remove(o.DryRun)
			if err != nil {
				return err
			}
			if gone {
				total -= item.Size
				removed = append(removed, item)
			}
		}
		return nil
	})
	if err != nil {
		return removed, fmt.Errorf("prune the cache: %w", err)
	}
	return removed, nil
}

// oldestRun returns the time when the oldest of the other running processes opened the cache. Items used since then may be
// in use.
func (c *Cache) oldestRun() (time.Time, error) {
	oldest := time.Now()
	entries, err := os.ReadDir(c.running())
	if err != nil {
		return oldest, err
	}
	for _, e := range entries {
		path := filepath.Join(c.running(), e.Name())
		if path == c.lease.Name() {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return oldest, err
		}
		alive, err := filelock.IsFileLocked(path)
		if err != nil {
			return oldest, err
		}
		if alive && info.ModTime().Before(oldest) {
			oldest = info.ModTime()
		}
	}
	return oldest, nil
}

// remove removes an item unless it is being fetched. It returns whether it did, or would in a dry run.
func (i Item) remove(dryRun bool) (bool, error) {
	if i.Kind == Partial {
		if busy, err := filelock.IsFileLocked(i.path); busy || err != nil {
			return false, err
		}
	}
	if dryRun {
		return true, nil
	}
	err := os.Remove(i.path)
	return err == nil, ignoreAbsent(err)
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
