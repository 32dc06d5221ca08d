package scratch_test

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/sealift/sealift/internal/scratch"
)

// ownerEnv makes the test binary play a process that owns a folder and is then killed.
const ownerEnv = "SEALIFT_TEST_SCRATCH_OWNER"

func TestMain(m *testing.M) {
	if parent := os.Getenv(ownerEnv); parent != "" {
		d, err := scratch.NewIn(parent)
		if err != nil {
			os.Exit(1)
		}
		os.Stdout.WriteString(d.Path() + "\n")
		_, _ = io.Copy(io.Discard, os.Stdin) // until killed; select {} would be a deadlock to Go's runtime, which ends the process
	}
	os.Exit(m.Run())
}

func folder(t *testing.T, parent string) *scratch.Dir {
	t.Helper()
	d, err := scratch.NewIn(parent)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func TestFolderStaysWhileOwnerLives(t *testing.T) {
	parent := t.TempDir()
	first := folder(t, parent)
	second := folder(t, parent)
	if !exists(t, first.Path()) || !exists(t, second.Path()) {
		t.Error("a folder went although it is owned")
	}
	if err := errors.Join(first.Remove(), second.Remove(), second.Remove()); err != nil {
		t.Error(err)
	}
	if exists(t, first.Path()) || exists(t, second.Path()) {
		t.Error("a folder is still there after Remove")
	}
}

func TestFolderOfKilledOwnerIsSwept(t *testing.T) {
	parent := t.TempDir()
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), ownerEnv+"="+parent)
	if _, err := owner.StdinPipe(); err != nil { // what it waits for
		t.Fatal(err)
	}
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	abandoned := strings.TrimSpace(line)
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()
	if !exists(t, abandoned) {
		t.Fatal("the folder was never there")
	}
	folder(t, parent)
	if exists(t, abandoned) {
		t.Error("the folder of a killed owner is still there")
	}
}

func TestConcurrentCallersShareFolder(t *testing.T) {
	parent := t.TempDir()
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			d, err := scratch.NewIn(parent)
			if err != nil {
				t.Error(err)
				return
			}
			if err := os.WriteFile(d.File("x"), []byte("mine"), 0o600); err != nil {
				t.Error(err)
			}
			if err := d.Remove(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}
