package volume

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/internal/testing/short"
)

// fill creates a folder with everything that file systems have.
func fill(t *testing.T, dir string) {
	t.Helper()
	script := `set -e
mkdir -p "data/deep er" empty lost+found
printf 'one\n' >"data/deep er/a file"
printf 'two\n' >data/$'line\nbreak'
ln data/deep\ er/a\ file hard
ln -s ../../etc/passwd link
mkfifo pipe
truncate --size 64M holes
printf end >>holes
printf x >program
chmod 4755 program
chmod 1777 empty
chown 1001:1002 data/deep\ er
touch --date 2001-02-03T04:05:06.123456789Z data/deep\ er/a\ file data
chown 65532:65532 .
chmod 2770 .
touch --date 2002-02-03T04:05:06Z .`
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := unix.Setxattr(filepath.Join(dir, "program"), "user.origin", []byte("here"), 0); err != nil {
		t.Fatal(err)
	}
}

// look describes a folder.
func look(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.Command("bash", "-c", `find . -path ./lost+found -prune -o -printf '%P %y %m %U:%G %T@ %s %l\n' | sort
find . -type f -printf '%P has %n names\n' | sort
find . -type f -print0 | sort -z | xargs -0 sha256sum
getfattr --recursive --dump . 2>/dev/null || true`)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func packed(t *testing.T, dir string) []byte {
	t.Helper()
	var b bytes.Buffer
	if changed, err := Pack(t.Context(), dir, &b); err != nil || changed {
		t.Fatal(changed, err)
	}
	return b.Bytes()
}

func TestFolderIsRestoredExactly(t *testing.T) {
	short.AsRoot(t, "files of other users")
	from := t.TempDir()
	fill(t, from)
	want := look(t, from)
	archive := packed(t, from)
	if len(archive) > 1<<20 {
		t.Errorf("the archive has the holes of a file: %d bytes", len(archive))
	}
	for name, prepare := range map[string]func(dir string) error{
		"no folder":    func(string) error { return nil },
		"empty folder": func(dir string) error { return os.Mkdir(dir, 0o755) },
		"empty disk":   func(dir string) error { return os.MkdirAll(filepath.Join(dir, "lost+found"), 0o755) },
		"cut off": func(dir string) error {
			w, err := Write(t.Context(), dir)
			if err != nil {
				return err
			}
			_, err = w.Write(archive[:len(archive)/2])
			w.Discard()
			return err
		},
	} {
		dir := filepath.Join(t.TempDir(), "new", "folder")
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := prepare(dir); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		w, err := Write(t.Context(), dir)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := w.Write(archive); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := w.Close(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := look(t, dir); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
		if origin := make([]byte, 16); true {
			n, err := unix.Getxattr(filepath.Join(dir, "program"), "user.origin", origin)
			if err != nil || string(origin[:n]) != "here" {
				t.Errorf("%s: the extended attribute is %q, %v", name, origin[:max(n, 0)], err)
			}
		}
		var holes unix.Stat_t
		if err := unix.Stat(filepath.Join(dir, "holes"), &holes); err != nil || holes.Blocks > 1<<10 {
			t.Errorf("%s: a file with holes takes %d blocks, %v", name, holes.Blocks, err)
		}
		if lacks, err := IsEmpty(dir); err != nil || lacks {
			t.Errorf("%s: the host still lacks it: %v, %v", name, lacks, err)
		}
	}
}

func TestExistingContentIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "has content, which is not replaced") {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "precious")); err != nil {
		t.Error(err)
	}
}

func TestTruncatedArchiveStaysUnfinished(t *testing.T) {
	short.AsRoot(t, "files of other users")
	from, dir := t.TempDir(), filepath.Join(t.TempDir(), "to")
	fill(t, from)
	archive := packed(t, from)
	w, err := Write(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(archive[:len(archive)/2])
	if err = errors.Join(err, w.Close()); err == nil {
		t.Error("half an archive is a folder")
	}
	if lacks, err := IsEmpty(dir); err != nil || !lacks {
		t.Errorf("the host does not lack it: %v, %v", lacks, err)
	}
}

func TestArchiveCannotEscape(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "volume")
	var b bytes.Buffer
	archive := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Name: "../above", Typeflag: tar.TypeReg},
		{Name: filepath.Join(top, "absolute"), Typeflag: tar.TypeReg},
		{Name: "out", Typeflag: tar.TypeSymlink, Linkname: top},
		{Name: "out/through", Typeflag: tar.TypeReg},
		{Name: "up", Typeflag: tar.TypeSymlink, Linkname: ".."},
		{Name: "up/through", Typeflag: tar.TypeReg},
	} {
		h.Mode = 0o644
		if err := archive.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	w, err := Write(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write(b.Bytes())
	_ = w.Close()
	entries, err := os.ReadDir(top)
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the volume: %v, %v", entries, err)
	}
}

// slow lets files change while they are read.
type slow struct{ change func() }

func (s slow) Write(p []byte) (int, error) {
	s.change()
	return len(p), nil
}

func TestFilesChangedDuringReadAreReported(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "log")
	if err := os.WriteFile(name, bytes.Repeat([]byte("x"), 16<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	changed, err := Pack(t.Context(), dir, slow{func() {
		f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		if _, err := io.WriteString(f, "more"); err != nil {
			t.Error(err)
		}
	}})
	if err != nil || !changed {
		t.Error(changed, err)
	}
}

func TestPackEndsWithItsContextAndItsWriter(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "large"), bytes.Repeat([]byte("x"), 32<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	full := errors.New("the disk is full")
	if _, err := Pack(t.Context(), dir, failing{full}); !errors.Is(err, full) {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stop := errors.New("stopped")
	ctx, end := context.WithCancelCause(ctx)
	if _, err := Pack(ctx, dir, slow{func() { end(stop) }}); !errors.Is(err, stop) {
		t.Error(err)
	}
	if _, err := Pack(t.Context(), filepath.Join(dir, "gone"), io.Discard); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Error(err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
