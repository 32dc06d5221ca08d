package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sealift/sealift/internal/poll"
)

// Host is one lab host.
type Host struct {
	rack  *Rack
	dir   string
	state state
}

// Name is the host's name, which is also its host name.
func (h *Host) Name() string { return h.state.Name }

// OS is the system it runs, one of Systems().
func (h *Host) OS() string { return h.state.OS }

// Address is the host's only address, or that with IPv4 of a host that has both. Only other hosts of the rack can reach it.
func (h *Host) Address() netip.Addr { return h.state.Address }

// network is the network of the host.
func (h *Host) network() netip.Prefix { return networkOf(h.state.Address.Is6()) }

// Created is when it was booted.
func (h *Host) Created() time.Time { return h.state.Created }

// Kept means that the host stays until it is removed. Otherwise it ends with the process that booted it.
func (h *Host) Kept() bool { return h.state.Owner == nil }

// Running reports whether the host is switched on.
func (h *Host) Running() bool { return h.platform().running() }

// Command is a program to run in a host. Nil streams are empty.
type Command struct {
	Args   []string // default a login shell
	Env    []string // added to a clean environment
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// NetworkOnly runs a program of this machine in the host's network namespace, for programs that the host lacks.
	NetworkOnly bool
	// Terminal keeps the program in the foreground of the caller's terminal.
	Terminal bool
}

// line is the program with its environment.
func (c Command) line() []string {
	return slices.Concat([]string{"/usr/bin/env", "-i", "-C", "/root",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "USER=root", "LANG=C.UTF-8"}, c.Env, c.Args)
}

// rebootPoll is the time between two checks whether a rebooting host is up.
const rebootPoll = 200 * time.Millisecond

// outputGrace is how long to wait for the output of a finished program if a child process holds it open.
const outputGrace = 2 * time.Second

// Exec runs a program in the host as root, in /root, and waits for it. If the program fails, the error is an
// *exec.ExitError. If ctx ends, the program is killed.
func (h *Host) Exec(ctx context.Context, c Command) error {
	if len(c.Args) == 0 {
		c.Args = []string{"/bin/bash", "--login"}
	}
	args, kill, err := h.platform().command(c)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	cmd.WaitDelay = outputGrace
	if !c.Terminal {
		// The program may be a child of nsenter: kill both.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error {
			if kill != nil {
				kill()
			}
			return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	}
	err = cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil // the program itself succeeded
	}
	if ctx.Err() != nil {
		return fmt.Errorf("run %s in host %s: %w", c.Args[0], h.state.Name, ctx.Err())
	}
	if err != nil {
		return fmt.Errorf("run %s in host %s: %w", c.Args[0], h.state.Name, err)
	}
	return nil
}

// Output runs a program in the host and returns its trimmed output. Errors contain its stderr.
func (h *Host) Output(ctx context.Context, args ...string) (string, error) {
	var stdout, stderr strings.Builder
	err := h.Exec(ctx, Command{Args: args, Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), err
}

// Reboot reboots the host and returns when it is up again. The host keeps its disk.
func (h *Host) Reboot(ctx context.Context) error {
	before, err := h.platform().bootID(ctx)
	if err != nil {
		return err
	}
	// The reboot may kill the program before it can report success.
	_ = h.Exec(ctx, Command{Args: []string{"systemctl", "reboot"}})
	ctx, cancel := context.WithTimeout(ctx, h.platform().bootTimeout())
	defer cancel()
	err = poll.Until(ctx, rebootPoll, nil, poll.Success(func(ctx context.Context) error {
		now, err := h.platform().bootID(ctx)
		if err == nil && now == before {
			return errors.New("it has not rebooted yet")
		}
		if err == nil {
			var answer string
			// A degraded system is up too: a service that was installed later fails to start.
			if answer, err = h.Output(ctx, "systemctl", "is-system-running", "--wait"); err == nil || answer == "degraded" {
				return nil
			}
		}
		return err
	}))
	if err != nil {
		return fmt.Errorf("wait for host %s to come up again: %w\n%s", h.state.Name, err, h.consoleTail())
	}
	return nil
}

// PowerCycle kills everything on the host at once, as a power failure does. It boots the host from its disk after off has
// returned.
func (h *Host) PowerCycle(ctx context.Context, off func() error) error {
	tree, err := h.rack.tree(ctx, h.state.OS, h.IsMachine())
	if err == nil {
		err = h.killAll(ctx)
	}
	if err == nil { // kernels kill new processes in a group that was killed once
		err = h.removeGroups()
	}
	if err == nil {
		err = off()
	}
	if err == nil {
		err = h.platform().powerOn(ctx, tree)
	}
	if err != nil {
		return fmt.Errorf("power-cycle host %s: %w", h.state.Name, err)
	}
	return nil
}

// dismantle removes every part of the host. It removes the folder last, so that another call can finish an interrupted one.
func (h *Host) dismantle(ctx context.Context) error {
	if err := h.killAll(ctx); err != nil {
		return err
	}
	err := errors.Join(h.removeGroups(), h.forgetEgress(ctx), h.platform().discard(ctx))
	if err == nil {
		err = os.RemoveAll(h.dir)
	}
	if err != nil {
		return fmt.Errorf("remove host %s: %w", h.state.Name, err)
	}
	return nil
}
