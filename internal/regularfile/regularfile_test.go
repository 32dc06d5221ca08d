package regularfile_test

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/internal/regularfile"
)

func TestOpenRefusesIrregularFiles(t *testing.T) {
	dir := t.TempDir()
	file, pipe, socket := filepath.Join(dir, "file"), filepath.Join(dir, "pipe"), filepath.Join(dir, "socket")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := os.Symlink("pipe", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, want := range map[string]error{
		"file": nil, "pipe": regularfile.ErrNot, "link": regularfile.ErrNot, "socket": regularfile.ErrNot, ".": regularfile.ErrNot, "none": fs.ErrNotExist,
	} {
		for way, open := range map[string]func() (*os.File, error){
			"Open":   func() (*os.File, error) { return regularfile.Open(filepath.Join(dir, name)) },
			"OpenIn": func() (*os.File, error) { return regularfile.OpenIn(root, name) },
		} {
			t.Run(way+" "+name, func(t *testing.T) {
				f, err := within(t, open)
				if !errors.Is(err, want) {
					t.Fatalf("got %v, want %v", err, want)
				}
				if err != nil {
					return
				}
				defer f.Close()
				if text, err := io.ReadAll(f); err != nil || string(text) != "text" {
					t.Errorf("read %q, %v", text, err)
				}
			})
		}
	}
}

// within fails the test when open does not return: a blocked open cannot be ended.
func within(t *testing.T, open func() (*os.File, error)) (f *os.File, err error) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f, err = open()
	}()
	select {
	case <-done:
		return f, err
	case <-time.After(30 * time.Second):
		t.Fatal("open blocks")
		return nil, nil
	}
}

func TestReadAtMostBoundsFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := regularfile.ReadAtMost(name, 4); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := regularfile.ReadAtMost(name, 3); err == nil || err.Error() != name+" has more than 3 bytes" {
		t.Error(err)
	}
	if _, err := regularfile.ReadAtMost(name+"-absent", 4); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
