package store_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/objects"
	"github.com/sealift/sealift/store"
)

func TestOnlyExpiredValuesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	for name, s := range map[string]store.Store{"folder": open(t, store.Opener{}, dir), "bucket": open(t, store.Opener{}, objects.Start(t).URL("prefix"))} {
		t.Run(name, func(t *testing.T) {
			for _, key := range []string{"a/old", "a/named", "a/below/old", "b/old", "aold"} {
				if _, err := s.Put(t.Context(), key, store.Bytes([]byte(key))); err != nil {
					t.Fatal(err)
				}
			}
			expire := func(before time.Time) []string {
				t.Helper()
				removed, err := s.(store.Expirer).Expire(t.Context(), "a", before, func(name string) bool { return name != "named" })
				if err != nil {
					t.Fatal(err)
				}
				return removed
			}
			if got := expire(time.Now().Add(-time.Hour)); len(got) > 0 {
				t.Errorf("removed %v, which is new", got)
			}
			if got := expire(time.Now().Add(time.Hour)); !slices.Equal(got, []string{"old"}) {
				t.Errorf("removed %v, want the one old value", got)
			}
			if _, err := s.Get(t.Context(), "a/old"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the old value: %v", err)
			}
			infos, err := s.List(t.Context(), "")
			if err != nil || len(infos) != 4 {
				t.Errorf("what is left: %v, %v", infos, err)
			}
		})
	}
	if removed, err := open(t, store.Opener{}, t.TempDir()).(store.Expirer).Expire(t.Context(), "none", time.Now(), nil); err != nil || removed != nil {
		t.Errorf("no folder at all: %v, %v", removed, err)
	}
}

func TestFolderExpiresByFileTimes(t *testing.T) {
	dir := t.TempDir()
	s := open(t, store.Opener{}, dir)
	for key, age := range map[string]time.Duration{"x/young": time.Hour, "x/old": 3 * time.Hour} {
		if _, err := s.Put(t.Context(), key, store.Bytes(nil)); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(filepath.Join(dir, key), at, at); err != nil {
			t.Fatal(err)
		}
	}
	removed, err := s.(store.Expirer).Expire(t.Context(), "x", time.Now().Add(-2*time.Hour), func(string) bool { return true })
	if err != nil || !slices.Equal(removed, []string{"old"}) {
		t.Errorf("removed %v, %v", removed, err)
	}
}
