package child_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/child"
)

// TestMain lets this program be the parent that is killed: it starts a sleep, prints the sleep's process id, and waits.
func TestMain(m *testing.M) {
	if os.Getenv("CHILD_TEST_PARENT") == "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command("sleep", "60")
	wait, err := child.Start(cmd)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(cmd.Process.Pid)
	_ = wait()
}

func TestChildEndsWithKilledParent(t *testing.T) {
	t.Parallel()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), "CHILD_TEST_PARENT=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	_ = parent.Process.Kill()
	_ = parent.Wait()
	for deadline := time.Now().Add(30 * time.Second); running(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("process %d outlived its parent", pid)
		}
	}
}

// running reports whether a process exists and is not a zombie, which its new parent has yet to reap.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// init keeps the first thread, which never ends, from running a test's goroutine.
func init() { runtime.LockOSThread() }

func TestChildOutlivesThreadThatStartedIt(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan func() error)
	go func() {
		runtime.LockOSThread() // a locked thread ends with its goroutine
		wait, err := child.Start(cmd)
		if err != nil {
			t.Error(err)
		}
		waits <- wait
	}()
	wait := <-waits
	if wait == nil {
		return
	}
	time.Sleep(100 * time.Millisecond) // the thread ends at some moment after its goroutine
	_ = in.Close()
	for range 2 {
		if err := wait(); err != nil {
			t.Errorf("cat ended with: %v", err)
		}
	}
}

func TestPipesAreReadToTheirEndBeforeWait(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("echo", "said")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	wait, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // echo has ended
	if said, err := io.ReadAll(out); err != nil || string(said) != "said\n" {
		t.Errorf("read %q, %v", said, err)
	}
	if err := wait(); err != nil {
		t.Error(err)
	}
}

func TestRunReportsExitOfChild(t *testing.T) {
	t.Parallel()
	var exit *exec.ExitError
	if err := child.Run(exec.Command("sh", "-c", "exit 7")); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("exit 7 gave %v", err)
	}
	if err := child.Run(exec.Command("/does/not/exist")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing program gave %v", err)
	}
}
