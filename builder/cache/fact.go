package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/internal/atomicfile"
)

// Remember keeps a fact about a mutable name. Kind is a folder name, key may be any text, fact is encoded as JSON.
func (c *Cache) Remember(kind, key string, fact any) error {
	data, err := json.Marshal(record{Key: digestOf(key), Fact: fact})
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
	return json.Unmarshal(data, &r) == nil && r.Key == digestOf(key)
}

// record has the digest of its key, and not the key itself: that may be the URL of a mirror with its password, and CI
// keeps caches where others read them.
type record struct {
	Key  string `json:"key"`
	Fact any    `json:"fact"`
}

func (c *Cache) recordPath(kind, key string) string {
	return filepath.Join(c.facts(), kind, digestOf(key)+".json")
}

func digestOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}
