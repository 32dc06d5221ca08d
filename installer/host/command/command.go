// Package command runs programs of the host.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sealift/sealift/internal/tail"
)

// outputDelay is how long a program's output is waited for once the program has ended: a daemon that it started may hold it.
const outputDelay = 5 * time.Second

// Run runs a program of the host. If the program fails, the error has the end of its output. Run does not wait for processes that
// the program leaves in the background.
func Run(ctx context.Context, output io.Writer, name string, args ...string) error {
	var said tail.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	cmd.Stdout, cmd.Stderr = output, io.MultiWriter(output, &said)
	cmd.WaitDelay = outputDelay
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("%s: %w: %s", strings.Join(append([]string{filepath.Base(name)}, args...), " "), err, said.String())
	}
	return nil
}

// TryRestart restarts those of the units that run. It skips a unit that the host does not have: systemctl itself fails for that.
func TryRestart(ctx context.Context, output io.Writer, units ...string) error {
	for _, unit := range units {
		loaded, err := exec.CommandContext(ctx, "systemctl", "show", "--property=LoadState", "--value", unit).Output()
		if err != nil {
			return fmt.Errorf("is there a unit %s? systemctl show: %w", unit, err)
		}
		if strings.TrimSpace(string(loaded)) == "not-found" {
			continue
		}
		if err := Run(ctx, output, "systemctl", "try-restart", unit); err != nil {
			return err
		}
	}
	return nil
}
