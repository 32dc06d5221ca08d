// Package tool runs programs of the build machine, such as a package manager or a container engine. They have limits, end with
// the build, and their error output appears in errors. The package knows nothing about the programs.
package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sealift/sealift/internal/child"
	"github.com/sealift/sealift/internal/tail"
)

// Error reports that a program failed.
type Error struct {
	Command string // the program and its arguments, without options
	Said    []byte // the end of its standard error
	Err     error
}

func (e *Error) Error() string {
	said := strings.TrimSpace(string(e.Said))
	if said == "" {
		return fmt.Sprintf("%s: %v", e.Command, e.Err)
	}
	return fmt.Sprintf("%s: %v: %s", e.Command, e.Err, said)
}

func (e *Error) Unwrap() error { return e.Err }

// grace is the time between the request to end and the kill.
const grace = 10 * time.Second

// kept is the number of bytes of standard error that errors keep.
const kept = 64 << 10

// Run runs a program made by exec.CommandContext with the same ctx, and passes its output to read, which may stop before
// the end. If the program fails, the error is *Error. The program ends with this process.
func Run(ctx context.Context, cmd *exec.Cmd, read func(io.Reader) error) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = grace
	said := &tail.Buffer{Limit: kept}
	cmd.Stderr = said
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	wait, err := child.Start(cmd) // otherwise it would keep its locks after this process is killed
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	readErr := read(stdout)
	_, drainErr := io.Copy(io.Discard, stdout)
	err = wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return &Error{Command: command(cmd.Args), Said: []byte(said.String()), Err: err}
	}
	return errors.Join(readErr, drainErr)
}

// command returns the program and its arguments without options.
func command(args []string) string {
	words := []string{filepath.Base(args[0])}
	if len(args) > 1 && !strings.HasPrefix(args[1], "-") {
		words = append(words, args[1])
	}
	return strings.Join(words, " ")
}
