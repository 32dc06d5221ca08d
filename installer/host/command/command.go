// Package command runs programs of the host.
package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/internal/tail"
)

// outputDelay is how long a program's output is waited for once the program has ended: a daemon that it started may hold it.
const outputDelay = 5 * time.Second

// journalTime bounds the search for the messages of a unit.
const journalTime = 10 * time.Second

// Environ is the environment of this process, in which programs speak English: what they say is read. GNU gettext and Python's look at
// LANGUAGE before the locale. glibc before 2.39 also does so in C.UTF-8.
func Environ() []string { return append(os.Environ(), "LC_ALL=C.UTF-8", "LANGUAGE=") }

// Run runs a program of the host. If the program fails, the error has the end of its output; if systemctl cannot start a unit, it also has
// the last lines of the unit's own program, which systemctl does not print. Run does not wait for processes that
// the program leaves in the background.
func Run(ctx context.Context, output io.Writer, name string, args ...string) error {
	var said tail.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = Environ()
	cmd.Stdout, cmd.Stderr = output, io.MultiWriter(output, &said)
	cmd.WaitDelay = outputDelay
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("%s: %w: %s%s", strings.Join(append([]string{filepath.Base(name)}, args...), " "), err, said.String(), unstarted(ctx, name, args))
	}
	return nil
}

// unstarted returns the messages of a unit that systemctl should have started, or "".
func unstarted(ctx context.Context, name string, args []string) string {
	starts := slices.ContainsFunc(args, func(arg string) bool {
		return slices.Contains([]string{"start", "restart", "try-restart", "--now"}, arg)
	})
	if filepath.Base(name) != "systemctl" || !starts {
		return ""
	}
	return UnitSays(ctx, args[len(args)-1])
}

// UnitSays returns the last lines that the program of a unit printed, after "\nUNIT says:\n", or "" if there are none. Lines of systemd
// itself are left out: they follow those of a program that does not start, and do not have the reason.
func UnitSays(ctx context.Context, unit string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), journalTime)
	defer cancel()
	if !strings.Contains(unit, ".") {
		unit += ".service"
	}
	out, err := exec.CommandContext(ctx, "journalctl", "--no-pager", "--quiet", "--output=cat", "--lines=10", "_SYSTEMD_UNIT="+unit).Output()
	if text := strings.TrimSpace(string(out)); err == nil && text != "" {
		return "\n" + unit + " says:\n" + text
	}
	return ""
}

// UnitState returns what systemd says of a unit: active, reloading, inactive, failed, activating or deactivating. A unit that the host does
// not have is inactive.
func UnitState(ctx context.Context, unit string) (string, error) {
	out, err := exec.CommandContext(ctx, "systemctl", "show", "--value", "--property=ActiveState", "--", unit).Output()
	if err != nil {
		return "", fmt.Errorf("read the state of the unit %s: systemctl show: %w", unit, cmp.Or(ctx.Err(), err))
	}
	return strings.TrimSpace(string(out)), nil
}

// TryRestart restarts the running ones of the units. It skips a unit that the host does not have: systemctl itself fails for that.
func TryRestart(ctx context.Context, output io.Writer, units ...string) error {
	for _, unit := range units {
		loaded, err := exec.CommandContext(ctx, "systemctl", "show", "--property=LoadState", "--value", unit).Output()
		if err != nil {
			return fmt.Errorf("check for the unit %s: systemctl show: %w", unit, err)
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
