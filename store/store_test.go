package store_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

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
					if err := s.Put(t.Context(), key, strings.NewReader(text)); err != nil {
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

func TestMissingValueIsNotExist(t *testing.T) {
	s, _ := store.Open(t.TempDir())
	if _, err := s.Get(t.Context(), "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestBrokenPutLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	s, _ := store.Open(dir)
	broken := io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errors.New("line cut")))
	if err := s.Put(t.Context(), "x", broken); err == nil {
		t.Error("no error")
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

func TestKeysStayInTheStore(t *testing.T) {
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
		if err := s.Put(t.Context(), key, strings.NewReader("")); err == nil {
			t.Errorf("put %q", key)
		}
	}
}

func TestUnknownLocationSaysWhatIsKnown(t *testing.T) {
	for location, want := range map[string]string{
		"ftp://host/x":         "scheme \"ftp\" is not known",
		"file://host/x":        "three slashes",
		"/no/such/folder/here": "no such file",
	} {
		if _, err := store.Open(location); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", location, err)
		}
	}
}
