package atomicfile_test

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/internal/atomicfile"
)

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestCommittedFileReplacesOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, content := range []string{"first", "second"} {
		f, err := atomicfile.Create(dir, ".file.*")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = f.WriteString(content)
		if err := f.Commit(path, 0o640); err != nil {
			t.Fatal(err)
		}
		f.Discard()
		data, err := os.ReadFile(path)
		if err != nil || string(data) != content {
			t.Errorf("got %q, %v", data, err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode is %v, %v", info.Mode(), err)
	}
	if left := names(t, dir); len(left) != 1 {
		t.Errorf("left %v", left)
	}
}

func TestReplacedFileKeepsItsMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := atomicfile.Replace(path, []byte("new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("replaced what is not there: %v", err)
	}
	if err := atomicfile.WriteMode(path, 0o640, []byte("old")); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Replace(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil || string(data) != "new" {
		t.Errorf("got %q, %v", data, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode is %v, %v", info.Mode(), err)
	}
}

// TestNewFilesHaveTheUmask writes files for a person, and one whose mode counts, as a person with a strict umask does.
func TestNewFilesHaveTheUmask(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	old := filepath.Join(dir, "old")
	if err := atomicfile.Write(old, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(old, 0o664); err != nil {
		t.Fatal(err)
	}
	before := unix.Umask(0o077)
	defer unix.Umask(before)
	if err := errors.Join(
		atomicfile.Write(filepath.Join(dir, "new"), nil),
		atomicfile.Replace(old, []byte("x")),
		atomicfile.FillIn(root, "node", 0o644, func(*os.File) error { return nil }),
	); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{"new": 0o600, "old": 0o664, "node": 0o644} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, want %v, %v", name, info, want, err)
		}
	}
}

func TestDiscardedFileIsRemoved(t *testing.T) {
	dir := t.TempDir()
	f, err := atomicfile.Create(dir, "x-*")
	if err != nil {
		t.Fatal(err)
	}
	f.Discard()
	if left := names(t, dir); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

func TestOpenTemporaryFileIsNotSwept(t *testing.T) {
	dir := t.TempDir()
	f, err := atomicfile.Create(dir, "x-*")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Discard()
	if err := atomicfile.Sweep(dir, "x-*"); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(filepath.Join(dir, "done"), 0o644); err != nil {
		t.Error(err)
	}
}

func TestPipeIsNotSwept(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, "x-pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- atomicfile.Sweep(dir, "x-*") }()
	select {
	case err := <-done:
		if left := names(t, dir); err != nil || len(left) != 1 {
			t.Errorf("left %v, %v", left, err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("waits for the pipe")
	}
}

func TestTemporaryFilesOfKilledProcessAreSwept(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWriteUntilKilled$")
	cmd.Env = append(os.Environ(), killedDir+"="+dir)
	if _, err := cmd.StdinPipe(); err != nil { // what blocks the child
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the child said %q, %v", line, err)
	}
	if err := atomicfile.Sweep(dir, "x-*"); err != nil {
		t.Fatal(err)
	}
	if left := names(t, dir); len(left) != 1 {
		t.Fatalf("while the child is writing: %v", left)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // reports that it was killed
	if err := atomicfile.Sweep(dir, "x-*"); err != nil {
		t.Fatal(err)
	}
	if left := names(t, dir); len(left) != 0 {
		t.Errorf("after the child was killed: %v", left)
	}
}

// TestWriteSweepsFilesOfKilledWrites has files of a killed writer of the same file, of one that still writes, and of another file.
func TestWriteSweepsFilesOfKilledWrites(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writing, err := atomicfile.Create(dir, ".unit.*")
	if err != nil {
		t.Fatal(err)
	}
	defer writing.Discard()
	for _, name := range []string{".unit.12", ".other.12", ".unit.old"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := atomicfile.Write(filepath.Join(dir, "unit"), []byte("x")); err != nil {
		t.Fatal(err)
	}
	want := []string{".other.12", filepath.Base(writing.Name()), ".unit.old", "unit"}
	slices.Sort(want)
	if left := names(t, dir); !slices.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
}

// killedDir is the variable with the folder in which a child writes until it is killed.
const killedDir = "ATOMICFILE_TEST_DIR"

func TestWriteUntilKilled(t *testing.T) {
	dir := os.Getenv(killedDir)
	if dir == "" {
		return // TestTemporaryFilesOfKilledProcessAreSwept runs this
	}
	f, err := atomicfile.Create(dir, "x-*")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Discard()
	_, _ = os.Stdout.WriteString("writing\n")
	// Wait for the parent to kill this process. Go's runtime does not treat a read as a deadlock; a channel without a sender is one, and
	// would end the process.
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func TestSweepTakesOwnNamesOnly(t *testing.T) {
	dir := t.TempDir()
	ours := []string{".demo-1.0.tar.gz.1234567", ".demo-*.tar.gz.12", ".demo-[.tar.gz.12"}
	theirs := []string{".demo-1.0.tar.gz.asc", ".demo-1.0.tar.gz.", ".demo-2.0.tar.gz.12", "demo-1.0.tar.gz.12", ".demo-1.0.tar.gz.12.asc"}
	for _, name := range append(ours, theirs...) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, version := range []string{"1.0", "*", "["} {
		if err := atomicfile.Sweep(dir, ".demo-"+version+".tar.gz.*"); err != nil {
			t.Fatal(err)
		}
	}
	left := names(t, dir)
	slices.Sort(theirs)
	if !slices.Equal(left, theirs) {
		t.Errorf("left %q, want %q", left, theirs)
	}
}

func TestIrregularFileIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	pipe, link, device := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "null")
	if err := errors.Join(unix.Mkfifo(pipe, 0o600), os.Symlink("/dev/null", link)); err != nil {
		t.Fatal(err)
	}
	paths := []string{pipe, link, "/dev/null"}
	if os.Geteuid() == 0 && unix.Mknod(device, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))) == nil {
		paths = append(paths, device)
	}
	before := names(t, dir)
	for _, path := range paths {
		was, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := atomicfile.Write(path, []byte("x")); !errors.Is(err, atomicfile.ErrNotRegular) {
			t.Errorf("%s: %v", path, err)
		}
		f, err := atomicfile.Create(dir, "x-*")
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Commit(path, 0o644); !errors.Is(err, atomicfile.ErrNotRegular) {
			t.Errorf("%s: %v", path, err)
		}
		f.Discard()
		if is, err := os.Lstat(path); err != nil || is.Mode() != was.Mode() {
			t.Errorf("%s was %v, is %v, %v", path, was.Mode(), is.Mode(), err)
		}
	}
	if after := names(t, dir); !slices.Equal(after, before) {
		t.Errorf("left %q, had %q", after, before)
	}
}

func TestDanglingLinkIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "out")
	if err := os.Symlink(filepath.Join(dir, "nothing"), link); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(link, []byte("x")); !errors.Is(err, atomicfile.ErrNotRegular) {
		t.Errorf("got %v", err)
	}
	f, err := atomicfile.Create(dir, ".out.*")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Discard()
	if err := f.Commit(link, 0o644); !errors.Is(err, atomicfile.ErrNotRegular) {
		t.Errorf("got %v", err)
	}
	if to, err := os.Readlink(link); err != nil || filepath.Base(to) != "nothing" {
		t.Errorf("the link is gone: %s, %v", to, err)
	}
}

func TestFolderIsSweptWhenItsOwnerIsGone(t *testing.T) {
	dir := t.TempDir()
	f, err := atomicfile.MkdirTemp(dir, "x-*")
	if err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(dir, "x-123")
	if err := os.MkdirAll(filepath.Join(dead, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Sweep(dir, "x-*"); err != nil {
		t.Fatal(err)
	}
	if left := names(t, dir); len(left) != 1 || left[0] != filepath.Base(f.Path) {
		t.Errorf("left %v", left)
	}
	if err := f.Remove(); err != nil {
		t.Error(err)
	}
}
