package cache_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/builder/cache"
)

func open(t *testing.T) (*cache.Cache, string) {
	t.Helper()
	dir := t.TempDir()
	c, err := cache.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c, dir
}

func digestOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func put(t *testing.T, c *cache.Cache, content, want string) (string, error) {
	t.Helper()
	w, err := c.Create()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	return w.Commit(want)
}

func assertNothingUnfinished(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(filepath.Join(dir, "tmp"))
	if err != nil || len(left) != 0 {
		t.Errorf("left in the temporary directory: %v, %v", left, err)
	}
}

func TestBlobIsFoundByItsDigest(t *testing.T) {
	c, dir := open(t)
	digest, err := put(t, c, "content", "")
	if err != nil || digest != digestOf("content") {
		t.Fatalf("Commit = %s, %v", digest, err)
	}
	if size, ok := c.Stat(digest); !ok || size != 7 {
		t.Errorf("Stat = %d, %v", size, ok)
	}
	data, err := c.Read(digest, 7)
	if err != nil || string(data) != "content" {
		t.Errorf("Read = %q, %v", data, err)
	}
	assertNothingUnfinished(t, dir)
}

func TestMismatchedContentIsNotCached(t *testing.T) {
	c, dir := open(t)
	if _, err := put(t, c, "content", digestOf("other")); !errors.Is(err, cache.ErrMismatch) {
		t.Fatalf("Commit = %v, want ErrMismatch", err)
	}
	for _, s := range []string{"content", "other"} {
		if _, ok := c.Stat(digestOf(s)); ok {
			t.Errorf("the blob of %q was kept", s)
		}
	}
	assertNothingUnfinished(t, dir)
}

func TestDiscardedBlobLeavesNoFile(t *testing.T) {
	c, dir := open(t)
	w, err := c.Create()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write([]byte("half"))
	w.Discard()
	assertNothingUnfinished(t, dir)
}

func TestDamagedBlobIsDropped(t *testing.T) {
	check := map[string]func(*cache.Cache, string) error{
		"when it is read":     func(c *cache.Cache, d string) error { _, err := c.Read(d, 100); return err },
		"when it is verified": func(c *cache.Cache, d string) error { return c.Verify(d) },
	}
	for name, check := range check {
		t.Run(name, func(t *testing.T) {
			c, _ := open(t)
			digest, err := put(t, c, "content", "")
			if err != nil {
				t.Fatal(err)
			}
			if err := check(c, digest); err != nil {
				t.Fatalf("before the damage: %v", err)
			}
			if err := os.WriteFile(c.Path(digest), []byte("cOntent"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := check(c, digest); !errors.Is(err, cache.ErrMismatch) {
				t.Errorf("got %v, want ErrMismatch", err)
			}
			if err := check(c, digest); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("afterwards got %v, want that it does not exist", err)
			}
		})
	}
}

func TestReadRefusesMoreThanLimit(t *testing.T) {
	c, _ := open(t)
	digest, err := put(t, c, "content", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(digest, 6); err == nil {
		t.Error("a blob of 7 bytes was read with a limit of 6")
	}
}

func TestFactIsRecalledByItsKey(t *testing.T) {
	c, dir := open(t)
	key := "https://example.com/a?b=../../c"
	var got string
	if c.Recall("urls", key, &got) {
		t.Error("recalled what was never remembered")
	}
	if err := c.Remember("urls", key, "fact"); err != nil {
		t.Fatal(err)
	}
	if !c.Recall("urls", key, &got) || got != "fact" {
		t.Errorf("recalled %q", got)
	}
	files, err := filepath.Glob(filepath.Join(dir, "facts", "urls", "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	if err := os.WriteFile(files[0], []byte(`{"key":`), 0o644); err != nil {
		t.Fatal(err)
	}
	if c.Recall("urls", key, &got) {
		t.Error("recalled a damaged record")
	}
	assertNothingUnfinished(t, dir)
}

func TestTouchedBlobIsNotFresh(t *testing.T) {
	c, dir := open(t)
	for name, touch := range map[string]func(path string) error{
		"another use":    func(string) error { c.Use(digestOf("content")); return nil },
		"a changed byte": func(path string) error { return os.WriteFile(path, []byte("c0ntent"), 0o644) },
		"a file in place": func(path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, []byte("content"), 0o644))
		},
		"a file that went": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			digest, err := put(t, c, "content", "")
			if err != nil {
				t.Fatal(err)
			}
			if !c.Fresh(digest) {
				t.Error("a blob that was just taken in is not fresh")
			}
			if err := touch(c.Path(digest)); err != nil {
				t.Fatal(err)
			}
			if c.Fresh(digest) {
				t.Error("it is still fresh")
			}
		})
	}
	digest, err := put(t, c, "content", "")
	if err != nil {
		t.Fatal(err)
	}
	other, err := cache.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if other.Fresh(digest) {
		t.Error("a blob that somebody else took in is fresh")
	}
}

func TestForeignFolderIsNotSwept(t *testing.T) {
	dir := t.TempDir() // stands for /, whose folder tmp is world-writable
	theirs := filepath.Join(dir, "tmp", "blob-123")
	if err := errors.Join(os.Mkdir(filepath.Dir(theirs), 0o777), os.WriteFile(theirs, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		c, err := cache.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	if _, err := os.Stat(theirs); err != nil {
		t.Error(err)
	}
}

func TestLeftoversOfKilledProcessAreSwept(t *testing.T) {
	dir := t.TempDir()
	c, err := cache.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	left := filepath.Join(dir, "tmp", "blob-123")
	if err := os.WriteFile(left, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if c, err = cache.Open(dir); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

// TestServicesOfRootHaveCache looks for the cache where no variable names a home, as in a systemd unit.
func TestServicesOfRootHaveCache(t *testing.T) {
	t.Setenv("HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	dir, err := cache.DefaultDir()
	if os.Geteuid() == 0 && (err != nil || dir != "/var/cache/sealift") {
		t.Errorf("got %q, %v", dir, err)
	}
	if os.Geteuid() != 0 && (err == nil || !strings.Contains(err.Error(), "--cache")) {
		t.Errorf("got %q, %v", dir, err)
	}
}
