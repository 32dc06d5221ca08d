package store_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/store"
)

func TestPutGetList(t *testing.T) {
	for name, location := range map[string]func(dir string) string{
		"folder": func(dir string) string { return dir },
		"URL":    func(dir string) string { return "file://" + dir },
	} {
		t.Run(name, func(t *testing.T) {
			s, err := store.Open(location(t.TempDir()))
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"b/two.tar.gz", "a.tar.gz"} {
				for _, text := range []string{"old", "content of " + key} {
					if _, err := s.Put(t.Context(), key, store.Bytes([]byte(text))); err != nil {
						t.Fatal(err)
					}
				}
			}
			infos, err := s.List(t.Context(), "")
			if err != nil || len(infos) != 2 || infos[0].Key != "a.tar.gz" || infos[1].Key != "b/two.tar.gz" {
				t.Fatalf("listed %v, %v", infos, err)
			}
			o, err := s.Get(t.Context(), "b/two.tar.gz")
			if err != nil {
				t.Fatal(err)
			}
			defer o.Close()
			buf := make([]byte, 3)
			if _, err := o.ReadAt(buf, 11); err != nil || string(buf) != "b/t" || o.Size() != 23 {
				t.Errorf("read %q of %d bytes, %v", buf, o.Size(), err)
			}
		})
	}
}

// TestMissingFolderIsReportedUntilItReturns removes the folder of an open store, as when a disk is unmounted, and puts another
// there.
func TestMissingFolderIsReportedUntilItReturns(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "packages")
	put := func(s store.Store, text string) {
		t.Helper()
		if _, err := s.Put(t.Context(), "a.tar.gz", store.Bytes([]byte(text))); err != nil {
			t.Fatal(err)
		}
	}
	open := func() store.Store {
		t.Helper()
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	put(s, "old")
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "a.tar.gz"); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), folder) {
		t.Errorf("a folder that is gone is taken for one without the value: %v", err)
	}
	if infos, err := s.List(t.Context(), ""); err == nil {
		t.Errorf("listed %v", infos)
	}
	put(open(), "another")
	o, err := s.Get(t.Context(), "a.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if o.Size() != int64(len("another")) {
		t.Errorf("got %d bytes", o.Size())
	}
}

func TestFolderIsListedByPrefix(t *testing.T) {
	s, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a-1", "a/b/c", "a/d", "b/a"} {
		if _, err := s.Put(t.Context(), key, store.Bytes(nil)); err != nil {
			t.Fatal(err)
		}
	}
	for prefix, want := range map[string]string{
		"": "a-1 a/b/c a/d b/a", "a": "a-1 a/b/c a/d", "a-": "a-1", "a/": "a/b/c a/d", "a/b": "a/b/c", "a/b/c": "a/b/c", "b/": "b/a", "c": "",
	} {
		infos, err := s.List(t.Context(), prefix)
		var keys []string
		for _, info := range infos {
			keys = append(keys, info.Key)
		}
		if got := strings.Join(keys, " "); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", prefix, got, err, want)
		}
	}
}

// TestRootOfFileSystemIsListed has a folder that only root can read, as mkfs makes it.
func TestRootOfFileSystemIsListed(t *testing.T) {
	short.AsRoot(t, "another user")
	for name, row := range map[string]struct {
		folder string
		fails  bool
	}{
		"what fsck finds":        {"lost+found", false},
		"such a folder below":    {"a/lost+found", true},
		"values of another user": {"b", true},
		"the store itself":       {".", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "store-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			if err := os.Mkdir(filepath.Join(dir, "a"), 0o755); err != nil {
				t.Fatal(err)
			}
			writeFile(t, dir, "a/one", []byte("x"))
			if err := errors.Join(os.Chmod(dir, 0o755), os.MkdirAll(filepath.Join(dir, row.folder), 0o755), os.Chmod(filepath.Join(dir, row.folder), 0o700)); err != nil {
				t.Fatal(err)
			}
			s, err := store.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			runtime.LockOSThread() // whose user alone changes; never unlocked, so that it ends with this test
			if err := unix.Setfsuid(65534); err != nil {
				t.Fatal(err)
			}
			infos, err := s.List(t.Context(), "")
			if err := unix.Setfsuid(0); err != nil {
				t.Fatal(err)
			}
			if row.fails != errors.Is(err, fs.ErrPermission) || !row.fails && (len(infos) != 1 || infos[0].Key != "a/one") {
				t.Errorf("listed %v, %v", infos, err)
			}
		})
	}
}

func TestMissingValueIsNotExist(t *testing.T) {
	s, _ := store.Open(t.TempDir())
	if _, err := s.Get(t.Context(), "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestNamedPipeIsNotListed reads a pipe without a writer, and stores a value beside a pipe.
func TestNamedPipeIsNotListed(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pipe", ".sealift-put-pipe.1"} {
		if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 2)
	go func() {
		_, err := s.Get(t.Context(), "pipe")
		done <- err
		_, err = s.Put(t.Context(), "value", store.Bytes([]byte("text")))
		done <- err
	}()
	for _, want := range []error{regularfile.ErrNot, nil} {
		select {
		case err := <-done:
			if !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("waits for the pipe")
		}
	}
}

func TestChangingContentIsNotStored(t *testing.T) {
	dir := t.TempDir()
	s, _ := store.Open(dir)
	data := []byte("content")
	value := store.Bytes(data)
	data[0] = 'C'
	if _, err := s.Put(t.Context(), "x", value); err == nil || !strings.Contains(err.Error(), "changed while it was copied") {
		t.Errorf("got %v", err)
	}
	if infos, err := s.List(t.Context(), ""); err != nil || len(infos) != 0 {
		t.Errorf("lists %v, %v", infos, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".sealift-put-x*")); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

func TestLeftoversOfKilledPutAreRemoved(t *testing.T) {
	dir := t.TempDir()
	s, _ := store.Open(dir)
	left := filepath.Join(dir, ".sealift-put-x.1.1")
	if err := os.WriteFile(left, []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "x", store.Bytes(nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	t.Run("and is looked for once, not before each of many values", func(t *testing.T) {
		if err := os.WriteFile(left, []byte("half"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(t.Context(), "y", store.Bytes(nil)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(left); err != nil {
			t.Errorf("the folder was read again: %v", err)
		}
	})
	t.Run("and files of other names stay", func(t *testing.T) {
		theirs := filepath.Join(dir, ".sealift-put-notes.txt")
		if err := os.WriteFile(theirs, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		s, _ := store.Open(dir)
		if _, err := s.Put(t.Context(), "z", store.Bytes(nil)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(theirs); err != nil {
			t.Error(err)
		}
	})
}

func TestKeysStayInStore(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "secret"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	inner := filepath.Join(dir, "store")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, filepath.Join(inner, "link")); err != nil {
		t.Fatal(err)
	}
	s, _ := store.Open(inner)
	for _, key := range []string{"../secret", "/etc/passwd", "a/../../secret", "link/secret", "", ".", `..\secret`} {
		if _, err := s.Get(t.Context(), key); err == nil {
			t.Errorf("got %q", key)
		}
		if _, err := s.Put(t.Context(), key, store.Bytes(nil)); err == nil {
			t.Errorf("put %q", key)
		}
	}
}

// TestFolderIsWhatOpenOpens compares the two functions that find a folder: snapshots are written to the one and listed by the other.
func TestFolderIsWhatOpenOpens(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "of two words")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	escaped := strings.ReplaceAll(dir, " ", "%20")
	for _, location := range []string{dir, "file://" + dir, "file://" + escaped, "file:" + escaped, "file://localhost" + escaped, "FILE://" + escaped} {
		if got := store.Folder(location); got != dir {
			t.Errorf("%s is the folder %q, want %q", location, got, dir)
		}
		s, err := store.Open(location)
		if err != nil {
			t.Errorf("%s: %v", location, err)
			continue
		}
		if _, err := s.Put(t.Context(), "k", store.Bytes([]byte(location))); err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(filepath.Join(dir, "k")); err != nil || string(data) != location {
			t.Errorf("%s: the folder has %q, %v", location, data, err)
		}
	}
	for _, location := range []string{"file://host/x", "s3://bucket/x", "https://host/x", "file:///%zz"} {
		if got := store.Folder(location); got != "" {
			t.Errorf("%s is the folder %q", location, got)
		}
	}
}

func TestUnknownLocationListsKnownSchemes(t *testing.T) {
	for location, want := range map[string]string{
		"ftp://host/x":         "scheme \"ftp\" is not known",
		"file://host/x":        "three slashes",
		"/no/such/folder/here": "create or mount it",
	} {
		if _, err := store.Open(location); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", location, err)
		}
	}
}

func TestFileChangedInPlaceIsNotReadFurther(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "k", store.Bytes([]byte("one value"))); err != nil {
		t.Fatal(err)
	}
	o, err := s.Get(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if err := os.Chtimes(filepath.Join(dir, "k"), time.Time{}, time.Unix(1, 0)); err != nil { // as copying over it does
		t.Fatal(err)
	}
	again, err := o.Reopen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	for _, value := range []store.Object{o, again} {
		if n, err := value.ReadAt(make([]byte, 3), 0); n != 0 || !errors.Is(err, store.ErrChanged) {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
}

func TestClosedObjectIsNotReopened(t *testing.T) {
	s, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "k", store.Bytes(nil)); err != nil {
		t.Fatal(err)
	}
	o, err := s.Get(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Reopen(t.Context()); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
}
