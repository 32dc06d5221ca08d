package proc_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/proc"
)

// TestStartedReadsProcessesWithOddNames uses a program whose name looks like the end of the field with the name.
func TestStartedReadsProcessesWithOddNames(t *testing.T) {
	t.Parallel()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	odd := filepath.Join(t.TempDir(), "a) Z 1 (b")
	if err := os.Symlink(sleep, odd); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(odd, "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	start, err := proc.Started(cmd.Process.Pid)
	if again, errAgain := proc.Started(cmd.Process.Pid); err != nil || errAgain != nil || start == "" || start != again {
		t.Errorf("started at %q, %v, and then at %q, %v", start, err, again, errAgain)
	}
	_ = cmd.Process.Kill()
	for deadline := time.Now().Add(30 * time.Second); err == nil && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		_, err = proc.Started(cmd.Process.Pid)
	}
	if !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("killed, before it is waited for: %v", err)
	}
	_ = cmd.Wait()
	if _, err := proc.Started(cmd.Process.Pid); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after it was waited for: %v", err)
	}
}

func TestBootIsSameEachTime(t *testing.T) {
	t.Parallel()
	one, err := proc.Boot()
	if two, errTwo := proc.Boot(); err != nil || errTwo != nil || one == "" || one != two {
		t.Errorf("%q, %v and %q, %v", one, err, two, errTwo)
	}
}
