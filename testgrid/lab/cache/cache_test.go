package cache_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/testgrid/lab/cache"
)

func open(t *testing.T) *cache.Dir {
	t.Helper()
	d, err := cache.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// write is a build that makes one file.
func write(_ context.Context, dir string) error {
	return os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o644)
}

func TestConcurrentBuildersBuildOnce(t *testing.T) {
	d := open(t)
	var builds atomic.Int32
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			path, err := d.Ensure(t.Context(), "thing-1", func(ctx context.Context, dir string) error {
				builds.Add(1)
				return write(ctx, dir)
			})
			if err != nil {
				t.Error(err)
				return
			}
			if data, err := os.ReadFile(filepath.Join(path, "file")); err != nil || string(data) != "content" {
				t.Errorf("read %q, %v", data, err)
			}
		})
	}
	group.Wait()
	if n := builds.Load(); n != 1 {
		t.Errorf("built %d times", n)
	}
}

func TestFailedBuildLeavesNothing(t *testing.T) {
	d := open(t)
	broken := errors.New("no compiler")
	_, err := d.Ensure(t.Context(), "thing-1", func(ctx context.Context, dir string) error {
		return errors.Join(write(ctx, dir), broken)
	})
	if !errors.Is(err, broken) {
		t.Fatalf("error is %v", err)
	}
	if d.Has("thing-1") {
		t.Error("a failed build counts as made")
	}
	if _, err := d.Ensure(t.Context(), "thing-1", write); err != nil {
		t.Error(err)
	}
}

func TestLeftoversOfKilledBuildAreDiscarded(t *testing.T) {
	short.AsRoot(t, "writing below a folder that forbids it")
	d := open(t)
	partial := d.Path(".partial-thing-1")
	if err := os.MkdirAll(filepath.Join(partial, "old"), 0o500); err != nil {
		t.Fatal(err)
	}
	path, err := d.Ensure(t.Context(), "thing-1", write)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(path, "old")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the remains are still there: %v", err)
	}
}

func TestWaitingForLockEndsWithItsContext(t *testing.T) {
	d := open(t)
	unlock, err := d.Lock(t.Context(), "compile")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Lock(ctx, "compile"); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want context.Canceled", err)
	}
	unlock()
	again, err := d.Lock(t.Context(), "compile")
	if err != nil {
		t.Fatalf("a free lock: %v", err)
	}
	again()
}

func TestKeysStayInsideCache(t *testing.T) {
	d := open(t)
	for _, key := range []string{"", ".", "..", "../thing", "a/b", "/etc"} {
		if path, err := d.Ensure(t.Context(), key, write); err == nil {
			t.Errorf("key %q made %s", key, path)
		}
	}
}

func TestEnvironmentSetsCacheFolder(t *testing.T) {
	t.Setenv(cache.Env, "/somewhere/else")
	if path, err := cache.DefaultPath(); err != nil || path != "/somewhere/else" {
		t.Errorf("got %s, %v", path, err)
	}
	t.Setenv(cache.Env, "")
	t.Setenv("XDG_CACHE_HOME", "/home/me/.cache")
	if path, err := cache.DefaultPath(); err != nil || !strings.HasPrefix(path, "/home/me/.cache/sealift/") {
		t.Errorf("got %s, %v", path, err)
	}
}
