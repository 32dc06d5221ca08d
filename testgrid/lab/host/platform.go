package host

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// platform is what a host runs on. Implementations have no state beyond that of the host.
type platform interface {
	// prepare makes the host's disk from what the cache has of its system.
	prepare(ctx context.Context, system string) error
	// powerOn boots the host from its disk and returns when its systemd reports that it is up.
	powerOn(ctx context.Context, system string) error
	// bootTimeout is the longest time for a boot.
	bootTimeout() time.Duration
	// running reports whether the host is switched on.
	running() bool
	// bootID differs after each boot.
	bootID(ctx context.Context) (string, error)
	// command returns the command line of this machine that runs c in the host. kill ends what it left in the host when it was
	// killed; it may be nil.
	command(c Command) (args []string, kill func(), err error)
	// port returns the name of this machine's interface that the host's network cable leads to.
	port() (string, error)
	// discard removes what the host has outside of its folder and its control groups. Its processes have ended.
	discard(ctx context.Context) error
}

func (h *Host) platform() platform {
	if h.state.Machine != nil {
		return virtualMachine{h}
	}
	return container{h}
}

// startManager starts the program that is the host to this machine. Its output is the host's console. The channel is closed when it ends.
func (h *Host) startManager(cmd *exec.Cmd, group string) (<-chan struct{}, error) {
	cgroup, err := os.Open(group)
	if err != nil {
		return nil, err
	}
	defer cgroup.Close()
	console, err := os.OpenFile(h.consolePath(), os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer console.Close()
	cmd.Stdout, cmd.Stderr = console, console
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true // signals from the caller's terminal must not reach the host
	// It starts inside the control group that killAll ends.
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(cgroup.Fd())
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the console log has the reason
		close(ended)
	}()
	if h.state.Manager, err = describeProcess(cmd.Process.Pid); err != nil {
		return nil, fmt.Errorf("the host ended at once: %w\n%s", err, h.consoleTail())
	}
	return ended, h.save()
}
