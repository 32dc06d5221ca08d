package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// MachineSpec describes a virtual machine.
type MachineSpec struct {
	// Clock is what the machine's clock says when it is switched on. Zero is the time of this machine.
	Clock time.Time
}

// The processors and the bytes of memory of a virtual machine for which a Spec has none: the fewest that a control plane may have.
const (
	DefaultCPUs   = 2
	DefaultMemory = 4 << 30
)

// machineState is what a virtual machine is made of.
type machineState struct {
	ClockOffset time.Duration `json:"clockOffset,omitempty"` // of the machine's clock, against that of this machine
	Port        int           `json:"port,omitempty"`        // on loopback, that leads to the machine's secure shell
}

// makeMachine makes the host a virtual machine.
func (s *state) makeMachine(spec MachineSpec) {
	s.CPUs, s.Memory = cmp.Or(s.CPUs, DefaultCPUs), cmp.Or(s.Memory, DefaultMemory)
	s.Machine = new(machineState)
	s.Machine.setClock(spec.Clock)
}

// setClock sets the clock that the machine finds when it is switched on the next time.
func (m *machineState) setClock(t time.Time) {
	m.ClockOffset = 0
	if !t.IsZero() {
		m.ClockOffset = time.Until(t).Round(time.Second)
	}
}

// virtualMachine is a host that is a QEMU virtual machine with a kernel, a disk and a clock of its own. It has two network cards. One is
// plugged into the rack's bridge, as that of a container is. The other leads from a port on loopback to the machine's secure shell, and
// nowhere else; in the machine it is in a network namespace of its own.
type virtualMachine struct{ *Host }

// bootTimeout is long for a boot without hardware acceleration on a busy machine, which takes one or two minutes.
func (h virtualMachine) bootTimeout() time.Duration { return 10 * time.Minute }

// machinePoll is the time between two tries to log in to a machine that boots. A login takes a second without hardware acceleration.
const machinePoll = 2 * time.Second

// The files of a virtual machine in its folder, beside its disks for USB.
const (
	overlayFile = "disk.qcow2"
	seedDisk    = "seed.tar"
)

// prepare makes the disk, which has only what differs from that of the system, the disk with the files of this host, and those of USB.
func (h virtualMachine) prepare(ctx context.Context, system string) error {
	base := filepath.Join(system, upstream.DiskName)
	if err := command(ctx, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", base, h.overlay()); err != nil {
		return err
	}
	if err := h.writeSeed(); err != nil {
		return err
	}
	for i, folder := range h.state.USB {
		size, err := diskSizeFor(folder)
		if err != nil {
			return err
		}
		if err := upstream.MakeDisk(ctx, folder, h.usbDisk(i), size, usbName(i)); err != nil {
			return fmt.Errorf("copy %s to a disk: %w", folder, err)
		}
	}
	return nil
}

func (h virtualMachine) overlay() string { return filepath.Join(h.disk(), overlayFile) }

func (h virtualMachine) usbDisk(i int) string { return filepath.Join(h.dir, usbName(i)+".img") }

// diskSizeFor returns the size in bytes of a disk with room for what is in a folder.
func diskSizeFor(folder string) (int64, error) {
	const least, perFile = 16 << 20, 8 << 10
	size := int64(least)
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		size += perFile
		if err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return err
	})
	return size + size/16, err
}

// command runs a program of this machine.
func command(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// powerOn starts QEMU with the machine's disk and waits for the system. What the system had not flushed to the disk before the power
// went is lost: QEMU keeps the map of newly written clusters in its memory until the system asks for a flush.
func (h virtualMachine) powerOn(ctx context.Context, system string) error {
	ctx, cancel := context.WithTimeout(ctx, h.bootTimeout())
	defer cancel()
	board := boardOf(h.state.OS)
	accelerator, err := h.rack.accelerator(ctx, board, system)
	if err != nil {
		return err
	}
	groups, err := h.makeGroups()
	if err != nil {
		return err
	}
	if err := h.plugIn(ctx); err != nil {
		return err
	}
	if h.state.Machine.Port, err = freePort(); err != nil {
		return err
	}
	ended, err := h.startManager(exec.Command(board.Tool.Program, h.qemuArgs(system, accelerator, time.Now())...), groups[0])
	if err != nil {
		return err
	}
	if err := h.waitReady(ctx, ended); err != nil {
		return fmt.Errorf("%w\n%s", err, h.consoleTail())
	}
	return nil
}

// tap is the name of the machine's port of the bridge. An interface's name has at most 15 characters.
func (h virtualMachine) tap() string {
	address := h.state.Address.AsSlice()
	return fmt.Sprintf("slv-%s-%x", h.rack.id, address[len(address)-2:])
}

func (h virtualMachine) port() (string, error) { return h.tap(), nil }

// plugIn plugs a network cable into the bridge, unless there is one.
func (h virtualMachine) plugIn(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join("/sys/class/net", h.tap())); err == nil {
		return nil
	}
	if err := ip(ctx, "tuntap", "add", "dev", h.tap(), "mode", "tap"); err != nil {
		return err
	}
	return ip(ctx, "link", "set", "dev", h.tap(), "master", h.rack.bridge(), "up")
}

// discard pulls the network cable.
func (h virtualMachine) discard(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join("/sys/class/net", h.tap())); err != nil {
		return nil //nolint:nilerr // it has none
	}
	return ip(ctx, "link", "delete", "dev", h.tap())
}

// freePort returns a port of loopback that nobody uses now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// waitReady returns when somebody can log in and systemd has started everything. A degraded system is up too.
func (h virtualMachine) waitReady(ctx context.Context, ended <-chan struct{}) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-ended:
			stop(errors.New("the virtual machine ended before it was up"))
		case <-ctx.Done():
		}
	}()
	err := poll.Until(ctx, machinePoll, nil, poll.Success(func(ctx context.Context) error {
		state, err := h.Output(ctx, "systemctl", "is-system-running", "--wait")
		if state == "degraded" {
			return nil
		}
		return err
	}))
	if err != nil {
		return fmt.Errorf("wait for the host to come up: %w", err)
	}
	return nil
}

func (h virtualMachine) running() bool { return h.state.Manager != nil && h.state.Manager.alive() }

// bootID is made by the kernel.
func (h virtualMachine) bootID(ctx context.Context) (string, error) {
	return h.Output(ctx, "cat", "/proc/sys/kernel/random/boot_id")
}

// SetClock sets the clock that a virtual machine has from its next PowerCycle on, as a dead battery does. A container has no clock.
func (h *Host) SetClock(t time.Time) error {
	if h.state.Machine == nil {
		return fmt.Errorf("host %s is a container, which has the clock of this machine; boot a virtual machine", h.state.Name)
	}
	h.state.Machine.setClock(t)
	return h.save()
}

// IsMachine reports whether the host is a virtual machine, with a kernel and a clock of its own.
func (h *Host) IsMachine() bool { return h.state.Machine != nil }
