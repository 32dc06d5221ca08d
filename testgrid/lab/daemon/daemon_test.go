package daemon_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/testgrid/lab/daemon"
)

// parentEnv makes the test binary play a process that starts a daemon and is then killed.
const parentEnv = "SEALIFT_TEST_DAEMON_PARENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentEnv); dir != "" {
		d, err := daemon.Start(shell(dir, "exec sleep 1000"))
		if err != nil {
			os.Exit(1)
		}
		os.Stdout.WriteString(strconv.Itoa(d.PID()) + "\n")
		_, _ = io.Copy(io.Discard, os.Stdin) // until killed; select {} would be a deadlock to Go's runtime, which ends the process
	}
	os.Exit(m.Run())
}

func shell(dir, script string) daemon.Command {
	return daemon.Command{Path: "/bin/sh", Args: []string{"-c", script}, Dir: dir, Log: filepath.Join(dir, "log")}
}

// fileExists is a readiness check: the daemon creates a file when it is ready.
func fileExists(path string) func(context.Context) error {
	return func(context.Context) error {
		_, err := os.Stat(path)
		return err
	}
}

func TestReadyRequiresPassingCheck(t *testing.T) {
	dir := t.TempDir()
	d, err := daemon.Start(shell(dir, "touch ready; exec sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Stop()
	if err := d.WaitReady(t.Context(), fileExists(filepath.Join(dir, "ready"))); err != nil {
		t.Error(err)
	}
}

func TestEarlyExitIsReportedWithLog(t *testing.T) {
	dir := t.TempDir()
	d, err := daemon.Start(shell(dir, "echo port is taken >&2; exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	err = d.WaitReady(t.Context(), fileExists(filepath.Join(dir, "never")))
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "port is taken") {
		t.Errorf("error is %v", err)
	}
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	d, err := daemon.Start(shell(dir, "exec sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.WaitReady(ctx, fileExists(filepath.Join(dir, "never"))); !errors.Is(err, context.Canceled) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error is %v, want the end of the context and the last answer", err)
	}
}

func TestMissingBinaryIsError(t *testing.T) {
	dir := t.TempDir()
	if _, err := daemon.Start(daemon.Command{Path: filepath.Join(dir, "nothing"), Log: filepath.Join(dir, "log")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
}

func TestStopIsRepeatable(t *testing.T) {
	dir := t.TempDir()
	d, err := daemon.Start(shell(dir, "exec sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	d.Stop()
	d.Stop()
	if err := syscall.Kill(d.PID(), 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there: %v", d.PID(), err)
	}
}

func TestLogTailIsBounded(t *testing.T) {
	dir := t.TempDir()
	d, err := daemon.Start(shell(dir, "i=0; while [ $i -lt 1000 ]; do echo line number $i; i=$((i+1)); done"))
	if err != nil {
		t.Fatal(err)
	}
	<-d.Done()
	tail := d.LogTail()
	if len(tail) > 4096 || !strings.HasSuffix(tail, "line number 999") {
		t.Errorf("%d bytes, ending in %q", len(tail), tail[max(0, len(tail)-30):])
	}
}

func TestDaemonDiesWithParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentEnv+"="+t.TempDir())
	if _, err := parent.StdinPipe(); err != nil { // what it waits for
		t.Fatal(err)
	}
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	end, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(end)
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	// A pidfd is readable once its process has ended, pidfd_open(2).
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(end), Events: unix.POLLIN}}, 30_000); n != 1 {
		t.Errorf("process %d outlived its parent by 30 s: %v", pid, err)
	}
}
