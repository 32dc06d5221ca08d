package atomicfile_test

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/atomicfile"
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

func TestACommittedFileReplacesAnother(t *testing.T) {
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

func TestAReplacedFileKeepsItsMode(t *testing.T) {
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

func TestADiscardedFileIsGone(t *testing.T) {
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

func TestAFileThatIsBeingWrittenIsNotSwept(t *testing.T) {
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

func TestAPipeIsNotSwept(t *testing.T) {
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

func TestWhatAKilledProcessLeftIsSwept(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWriteUntilKilled$")
	cmd.Env = append(os.Environ(), killedDir+"="+dir)
	if _, err := cmd.StdinPipe(); err != nil { // what the child waits on
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
	_ = cmd.Wait() // says that it was killed
	if err := atomicfile.Sweep(dir, "x-*"); err != nil {
		t.Fatal(err)
	}
	if left := names(t, dir); len(left) != 0 {
		t.Errorf("after the child was killed: %v", left)
	}
}

// killedDir names the variable that tells a child where to write until it is killed.
const killedDir = "ATOMICFILE_TEST_DIR"

func TestWriteUntilKilled(t *testing.T) {
	dir := os.Getenv(killedDir)
	if dir == "" {
		return // TestWhatAKilledProcessLeftIsSwept runs this
	}
	f, err := atomicfile.Create(dir, "x-*")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Discard()
	_, _ = os.Stdout.WriteString("writing\n")
	// Wait for the parent to kill this process. A read is no deadlock to Go's runtime; a channel that nobody sends on is one,
	// and would end the process.
	_, _ = io.Copy(io.Discard, os.Stdin)
}
