package tool_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sealift/sealift/builder/tool"
)

func TestRunReturnsOutput(t *testing.T) {
	var out []byte
	err := tool.Run(t.Context(), exec.CommandContext(t.Context(), "echo", "hello"), func(r io.Reader) (err error) {
		out, err = io.ReadAll(r)
		return err
	})
	if err != nil || string(out) != "hello\n" {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestFailureQuotesProgramOutput(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "echo this is why >&2; exit 3")
	err := tool.Run(t.Context(), cmd, func(io.Reader) error { return nil })
	var failed *tool.Error
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), "sh: exit status 3: this is why") {
		t.Errorf("got %v", err)
	}
}

func TestLongErrorOutputIsCutToItsEnd(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "head -c 1000000 /dev/zero >&2; echo end >&2; exit 1")
	var failed *tool.Error
	if err := tool.Run(t.Context(), cmd, func(io.Reader) error { return nil }); !errors.As(err, &failed) {
		t.Fatal(err)
	}
	if n := len(failed.Said); n < 32<<10 || n > 64<<10 || !strings.HasSuffix(string(failed.Said), "end") {
		t.Errorf("kept %d bytes", len(failed.Said))
	}
}

func TestReaderMayStopEarly(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "head", "-c", "1000000", "/dev/zero")
	stop := errors.New("enough")
	if err := tool.Run(t.Context(), cmd, func(io.Reader) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}

func TestChildrenEndWithTheirProgram(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("told to")
	var child int
	err := tool.Run(ctx, exec.CommandContext(ctx, "sh", "-c", "sleep 1000 & echo $!; wait"), func(r io.Reader) error {
		line, err := bufio.NewReader(r).ReadString('\n')
		if err == nil {
			child, err = strconv.Atoi(strings.TrimSpace(line))
		}
		cancel(reason)
		return err
	})
	if !errors.Is(err, reason) {
		t.Errorf("got %v, want the reason", err)
	}
	// The signal has been sent; the child is gone, or is about to be and waits for its new parent to take notice.
	if alive := syscall.Kill(child, 0) == nil; alive && !isEnding(t, child) {
		t.Errorf("process %d lives on", child)
	}
}

// isEnding waits until a process is gone or a zombie, for as long as the test may last.
func isEnding(t *testing.T, pid int) bool {
	t.Helper()
	for t.Context().Err() == nil {
		out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
		if err != nil || strings.HasPrefix(string(out), "Z") {
			return true
		}
	}
	return false
}
