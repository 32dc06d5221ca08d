package cache_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/builder/cache"
)

// keep puts content into a cache and says when it was last used.
func keep(t *testing.T, c *cache.Cache, content string, used time.Time) string {
	t.Helper()
	digest, err := put(t, c, content, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(c.Path(digest), used, used); err != nil {
		t.Fatal(err)
	}
	return digest
}

func ago(hours int) time.Time { return time.Now().Add(-time.Duration(hours) * time.Hour) }

func TestPrune(t *testing.T) {
	tests := map[string]struct {
		options cache.PruneOptions
		left    string
	}{
		"removes the least recently used until the cache fits":        {cache.PruneOptions{MaxSize: 20}, "new newer"},
		"removes nothing from a cache that fits":                      {cache.PruneOptions{MaxSize: 40}, "old new newer"},
		"removes everything but what runs when nothing may stay":      {cache.PruneOptions{MaxSize: 0}, ""},
		"removes what was not used for long":                          {cache.PruneOptions{MaxSize: -1, Unused: ago(4)}, "new newer"},
		"removes by age also from a cache that fits":                  {cache.PruneOptions{MaxSize: 1000, Unused: ago(2)}, "newer"},
		"removes nothing when it is only asked what would be removed": {cache.PruneOptions{MaxSize: 0, DryRun: true}, "old new newer"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c, _ := open(t)
			content := map[string]string{"new": "new-------", "old": "old-------", "newer": "newer-----"} // of 10 bytes each
			digests := map[string]string{
				"new": keep(t, c, content["new"], ago(3)), "old": keep(t, c, content["old"], ago(5)), "newer": keep(t, c, content["newer"], ago(1)),
			}
			removed, err := c.Prune(test.options)
			if err != nil {
				t.Fatal(err)
			}
			var left []string
			for _, name := range []string{"old", "new", "newer"} {
				if _, ok := c.Stat(digests[name]); ok {
					left = append(left, name)
				}
			}
			if got := strings.Join(left, " "); got != test.left {
				t.Errorf("left %q, want %q; said to have removed %+v", got, test.left, removed)
			}
			if want := 3 - len(left); !test.options.DryRun && len(removed) != want {
				t.Errorf("said to have removed %d, want %d", len(removed), want)
			}
			if test.options.DryRun && len(removed) != 3 {
				t.Errorf("would remove %+v", removed)
			}
		})
	}
}

func TestRecalledFactIsPrunedLast(t *testing.T) {
	c, dir := open(t)
	for _, key := range []string{"recalled", "forgotten"} {
		if err := c.Remember("urls", key, key); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "facts", "urls", "*.json"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	old := ago(5)
	for _, file := range files {
		if err := os.Chtimes(file, old, old); err != nil {
			t.Fatal(err)
		}
	}
	var got string
	if !c.Recall("urls", "recalled", &got) {
		t.Fatal("the fact is gone")
	}
	removed, err := c.Prune(cache.PruneOptions{MaxSize: -1, Unused: ago(2)})
	if err != nil || len(removed) != 1 || !c.Recall("urls", "recalled", &got) || c.Recall("urls", "forgotten", &got) {
		t.Errorf("removed %+v, %v; want the fact that nobody recalled", removed, err)
	}
}

func TestUsedBlobIsPrunedLast(t *testing.T) {
	c, _ := open(t)
	first, second := keep(t, c, "first", ago(3)), keep(t, c, "second", ago(2))
	if size, ok := c.Use(first); !ok || size != 5 {
		t.Errorf("Use = %d, %v", size, ok)
	}
	if _, err := c.Prune(cache.PruneOptions{MaxSize: 5}); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Stat(first); !ok {
		t.Error("the blob that was used is gone")
	}
	if _, ok := c.Stat(second); ok {
		t.Error("the blob that was not used is there")
	}
	if _, ok := c.Use(second); ok {
		t.Error("a pruned blob is usable")
	}
}

func TestBlobsInUseAreNotPruned(t *testing.T) {
	mine, dir := open(t)
	used, unused := keep(t, mine, "used", ago(2)), keep(t, mine, "unused", ago(1))
	// Every open cache counts as a process, so a second one in this process serves.
	other, err := cache.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := other.Use(used); !ok {
		t.Fatal("not there to be used")
	}
	prune := func() {
		t.Helper()
		if _, err := mine.Prune(cache.PruneOptions{MaxSize: 0}); err != nil {
			t.Fatal(err)
		}
	}
	prune()
	if _, ok := mine.Stat(used); !ok {
		t.Error("what another process uses is gone")
	}
	if _, ok := mine.Stat(unused); ok {
		t.Error("what nobody uses is there")
	}
	other.Close()
	prune()
	if _, ok := mine.Stat(used); ok {
		t.Error("what was used by a process that has ended is there")
	}
}

// holding names the variable that makes a child of this test hold a cache open.
const holding = "CACHE_TEST_HOLD"

func TestHelperHoldsCache(t *testing.T) {
	task := strings.Split(os.Getenv(holding), "\n")
	if len(task) != 2 {
		return // TestAKilledProcessProtectsNothing runs this
	}
	c, err := cache.Open(task[0])
	if err != nil {
		t.Fatal(err)
	}
	c.Use(task[1])
	w, err := c.Continue(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write([]byte("half"))
	_, _ = os.Stdout.WriteString("ready\n")
	_, _ = io.Copy(io.Discard, os.Stdin) // until killed
}

func TestPartialOfKilledProcessIsResumed(t *testing.T) {
	c, dir := open(t)
	digest := keep(t, c, "content", ago(1))
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHelperHoldsCache$")
	cmd.Env = append(os.Environ(), holding+"="+dir+"\n"+digest)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	if removed, err := c.Prune(cache.PruneOptions{MaxSize: 0}); err != nil || len(removed) != 0 {
		t.Errorf("while it runs: removed %+v, %v", removed, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Continue(ctx, "key"); !errors.Is(err, context.Canceled) {
		t.Errorf("while it runs: Continue = %v", err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()

	w, err := c.Continue(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	if w.Size() != 4 {
		t.Errorf("after its end there are %d bytes, want the 4 that it wrote", w.Size())
	}
	if err := w.Suspend(); err != nil {
		t.Fatal(err)
	}
	if removed, err := c.Prune(cache.PruneOptions{MaxSize: 0}); err != nil || len(removed) != 2 {
		t.Errorf("after its end: removed %+v, %v", removed, err)
	}
}

func TestPartialIsResumed(t *testing.T) {
	c, dir := open(t)
	begin := func() *cache.Writer {
		t.Helper()
		w, err := c.Continue(t.Context(), "key")
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	write := func(w *cache.Writer, s string) {
		t.Helper()
		if _, err := w.Write([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	w := begin()
	write(w, "wrong")
	if err := w.Restart(); err != nil {
		t.Fatal(err)
	}
	write(w, "con")
	if err := w.Suspend(); err != nil {
		t.Fatal(err)
	}
	w.Discard() // has no effect any longer
	w = begin()
	if w.Size() != 3 {
		t.Errorf("continued after %d bytes, want 3", w.Size())
	}
	write(w, "tent")
	if got, err := w.Commit(digestOf("content")); err != nil || got != digestOf("content") {
		t.Errorf("Commit = %s, %v", got, err)
	}
	w = begin()
	if w.Size() != 0 {
		t.Errorf("a committed partial left %d bytes", w.Size())
	}
	write(w, "damaged")
	if _, err := w.Commit(digestOf("content")); !errors.Is(err, cache.ErrMismatch) {
		t.Errorf("Commit = %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "partial")); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestListNamesAllPrunedBlobs(t *testing.T) {
	c, _ := open(t)
	digest := keep(t, c, "content", ago(2))
	w, err := c.Continue(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Suspend(); err != nil {
		t.Fatal(err)
	}
	if err := c.Remember("urls", "https://example.com", 1); err != nil {
		t.Fatal(err)
	}
	dir, err := c.Derived(nil)
	if err != nil {
		t.Fatal(err)
	}
	form := filepath.Join(dir, digest+".deflate-6")
	if err := os.WriteFile(form, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	old := ago(1)
	if err := os.Chtimes(form, old, old); err != nil {
		t.Fatal(err)
	}
	items, err := c.List()
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, item := range items {
		kinds = append(kinds, string(item.Kind))
	}
	if got := strings.Join(kinds, " "); got != "blob deflated partial fact" {
		t.Errorf("in order of their last use: %s", got)
	}
	if _, err := c.Derived(map[string]bool{digest: true}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(form); err != nil || !info.ModTime().After(old) {
		t.Errorf("a compressed form that is needed was not marked as used: %v, %v", info, err)
	}
}
