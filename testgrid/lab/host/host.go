package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sealift/sealift/testgrid/short"
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

// Address is its only address, reachable from other hosts of the rack and from nowhere else.
func (h *Host) Address() netip.Addr { return h.state.Address }

// Created is when it was booted.
func (h *Host) Created() time.Time { return h.state.Created }

// Kept says whether it stays until it is removed; otherwise it goes with the process that booted it.
func (h *Host) Kept() bool { return h.state.Owner == nil }

// Running says whether the host's first process is there.
func (h *Host) Running() bool {
	_, err := h.leader()
	return err == nil
}

// ForTest boots a host of the machine's common rack that ends with t, however t ends. Tests of several packages run at once:
// leave the name empty unless it matters.
func ForTest(t testing.TB, s Spec) *Host {
	t.Helper()
	short.Skip(t, "a host of the lab")
	rack, err := OpenRack(t.Context(), Options{Progress: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatalf("open the rack of lab hosts: %v", err)
	}
	h, err := rack.Boot(t.Context(), s)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := rack.Remove(context.WithoutCancel(t.Context()), h.Name()); err != nil {
			t.Errorf("remove host %s: %v", h.Name(), err)
		}
	})
	return h
}

// Command is a program to run in a host. Nil streams are empty.
type Command struct {
	Args   []string // default a login shell
	Env    []string // added to a clean environment
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// NetworkOnly runs a program of this machine with the host's network, to look at what the host has no program for.
	NetworkOnly bool
	// Terminal leaves the program in the foreground of the caller's terminal, for people.
	Terminal bool
}

// rebootPoll is how often a rebooting host is asked whether it is up.
const rebootPoll = 200 * time.Millisecond

// outputGrace bounds how long the output of a finished program is waited for when something it started holds it open.
const outputGrace = 2 * time.Second

// Exec runs a program in the host as root, in /root, and waits for it. A program that fails gives an *exec.ExitError. When
// ctx ends the program is killed.
func (h *Host) Exec(ctx context.Context, c Command) error {
	leader, err := h.leader()
	if err != nil {
		return err
	}
	if len(c.Args) == 0 {
		c.Args = []string{"/bin/bash", "--login"}
	}
	namespaces := "--all"
	if c.NetworkOnly {
		namespaces = "--net"
	}
	args := []string{namespaces, "--target", strconv.Itoa(leader), "--", "/usr/bin/env", "-i", "-C", "/root",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "USER=root", "LANG=C.UTF-8"}
	cmd := exec.CommandContext(ctx, "nsenter", append(append(args, c.Env...), c.Args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	cmd.WaitDelay = outputGrace
	if !c.Terminal {
		// The program is a child of nsenter's: both have to be killed.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
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

// Output runs a program in the host and returns what it wrote, trimmed. Stderr is part of the error.
func (h *Host) Output(ctx context.Context, args ...string) (string, error) {
	var stdout, stderr strings.Builder
	err := h.Exec(ctx, Command{Args: args, Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), err
}

// Reboot reboots the host and returns when it is up again. What it has on disk stays.
func (h *Host) Reboot(ctx context.Context) error {
	before, err := h.leader()
	if err != nil {
		return err
	}
	// The program may well be killed before it can say that all is well.
	_ = h.Exec(ctx, Command{Args: []string{"systemctl", "reboot"}})
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	for {
		now, err := h.leader()
		if err == nil && now != before {
			var answer string
			// Degraded is up, too: something that was installed since does not start.
			if answer, err = h.Output(ctx, "systemctl", "is-system-running", "--wait"); err == nil || answer == "degraded" {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for host %s to come up again: %w (%w)\n%s", h.state.Name, ctx.Err(), err, h.consoleTail())
		case <-time.After(rebootPoll):
		}
	}
}

// PowerCycle ends all that the host runs at once, as the loss of power does, and boots what is on its disk when off has returned.
func (h *Host) PowerCycle(ctx context.Context, off func() error) error {
	tree, err := h.rack.tree(ctx, h.state.OS)
	if err == nil {
		err = h.killAll(ctx)
	}
	if err == nil { // kernels kill what is born into a group that was killed once
		err = h.removeGroups()
	}
	if err == nil {
		err = off()
	}
	if err == nil {
		err = h.powerOn(ctx, tree)
	}
	if err != nil {
		return fmt.Errorf("take the power from host %s and give it back: %w", h.state.Name, err)
	}
	return nil
}

// leader finds the host's first process, whose namespaces are the host's. It changes when the host reboots.
func (h *Host) leader() (int, error) {
	gone := fmt.Errorf("host %s does not run; remove it and boot it again", h.state.Name)
	if h.state.Manager == nil || !h.state.Manager.alive() {
		return 0, gone
	}
	for _, nspawn := range children(h.state.Manager.PID) {
		for _, pid := range children(nspawn) {
			if isFirstProcess(pid) {
				return pid, nil
			}
		}
	}
	return 0, gone
}

// children lists the processes that a process has started, none when it is gone.
func children(pid int) []int {
	id := strconv.Itoa(pid)
	data, err := os.ReadFile(filepath.Join("/proc", id, "task", id, "children"))
	if err != nil {
		return nil
	}
	var list []int
	for _, field := range strings.Fields(string(data)) {
		if child, err := strconv.Atoi(field); err == nil {
			list = append(list, child)
		}
	}
	return list
}

// isFirstProcess says whether a process is number 1 of a PID namespace of its own.
func isFirstProcess(pid int) bool {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			fields := strings.Fields(ids)
			return len(fields) > 1 && fields[len(fields)-1] == "1"
		}
	}
	return false
}

// dismantle removes everything that the host is made of, the folder last: until then another call can finish the job.
func (h *Host) dismantle(ctx context.Context) error {
	if err := h.killAll(ctx); err != nil {
		return err
	}
	if err := h.removeGroups(); err != nil {
		return fmt.Errorf("remove host %s: %w", h.state.Name, err)
	}
	for _, dir := range []string{filepath.Join(nspawnPropagate, h.group()), h.dir} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove host %s: %w", h.state.Name, err)
		}
	}
	return nil
}

// nspawnPropagate is where systemd-nspawn keeps a folder for each container, which one that is killed leaves behind.
const nspawnPropagate = "/run/systemd/nspawn/propagate"
