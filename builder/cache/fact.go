package cache

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/sha256hex"
)

// Remember stores a fact about a mutable name. kind is a folder name, key may be any text, and fact is encoded as JSON.
func (c *Cache) Remember(kind, key string, fact any) error {
	data, err := json.Marshal(record{Key: sha256hex.Of(key), Fact: fact})
	if err != nil {
		return fmt.Errorf("cache %s %s: %w", kind, key, err)
	}
	path := c.recordPath(kind, key)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("cache %s %s: %w", kind, key, err)
	}
	if err := c.writeFact(path, data); err != nil {
		return fmt.Errorf("cache %s %s: %w", kind, key, err)
	}
	return nil
}

// writeFact writes a file by way of the folder for unfinished ones, which each process sweeps once. A folder of facts may have
// thousands of files.
func (c *Cache) writeFact(path string, data []byte) error {
	f, err := atomicfile.Create(c.temp(), unfinished)
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Commit(path, 0o644)
}

// Recall reads a remembered fact and reports whether there was a readable one. It marks the fact as used.
func (c *Cache) Recall(kind, key string, fact any) bool {
	path := c.recordPath(kind, key)
	data, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	r := record{Fact: fact}
	if json.Unmarshal(data, &r) != nil || r.Key != sha256hex.Of(key) {
		return false
	}
	// Another user's cache is read-only, and the fact has been read even if it is removed now.
	_ = c.sharing(func() error {
		now := time.Now()
		return os.Chtimes(path, now, now)
	})
	return true
}

// record contains the digest of its key instead of the key. The key may be a mirror's URL with its password, and CI shares
// caches.
type record struct {
	Key  string `json:"key"`
	Fact any    `json:"fact"`
}

func (c *Cache) recordPath(kind, key string) string {
	return filepath.Join(c.facts(), kind, sha256hex.Of(key)+".json")
}
