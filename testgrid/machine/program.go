package machine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/sealift/sealift/internal/child"
)

// ErrUnable is returned when a kind of machine does not support what a test needs. The test is skipped, not failed.
var ErrUnable = errors.New("these machines do not support it")

// programGrace is how long a program of the user may take to end after it was asked to.
const programGrace = 30 * time.Second

// program is a program of the user with its first arguments. It ends with this process.
type program []string

// run runs the program with more arguments. It passes stdin and writes its output to stdout.
func (p program) run(ctx context.Context, stdin io.Reader, stdout io.Writer, environment []string, args ...string) error {
	var stderr bytes.Buffer
	err := p.start(ctx, Command{Stdin: stdin, Stdout: stdout, Stderr: &stderr}, environment, args...)
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(append(p, args...), " "), err, strings.TrimSpace(stderr.String()))
	}
	return nil
}

// start is run with streams of the caller. The error is an *exec.ExitError if the program failed.
func (p program) start(ctx context.Context, c Command, environment []string, args ...string) error {
	cmd := exec.CommandContext(ctx, p[0], append(p[1:len(p):len(p)], args...)...)
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = programGrace
	err := child.Run(cmd)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// connections reads a JSON list of connections that the program prints.
func (p program) connections(ctx context.Context, environment []string, args ...string) ([]Connection, error) {
	var out bytes.Buffer
	if err := p.run(ctx, nil, &out, environment, args...); err != nil {
		return nil, err
	}
	var list []Connection
	if err := json.Unmarshal(out.Bytes(), &list); err != nil {
		return nil, fmt.Errorf("%s did not print a JSON list of connections: %w", p[0], err)
	}
	return list, nil
}
