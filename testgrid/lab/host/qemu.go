package host

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sealift/sealift/internal/proc"
	"github.com/sealift/sealift/testgrid/lab/qemu"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// shellCard is the hardware address of the network card that leads to the secure shell. Each machine's is on a network of its own.
const shellCard = "52:54:00:5e:a1:f7"

// cableCard returns the hardware address of the network card that is plugged into the bridge.
func (h virtualMachine) cableCard() string {
	address := h.state.Address.AsSlice()
	return net.HardwareAddr(append([]byte{0x52, 0x54}, address[len(address)-4:]...)).String()
}

// boot are the settings that all machines of a system have in common.
func boot(b qemu.Board, system, accelerator, line string) []string {
	return b.Args(accelerator, filepath.Join(system, upstream.KernelName), filepath.Join(system, upstream.InitrdName), line)
}

// qemuArgs are the settings of the machine. now is the time of this machine.
func (h virtualMachine) qemuArgs(system, accelerator string, now time.Time) []string {
	m, board := h.state.Machine, boardOf(h.state.OS)
	args := append(boot(board, system, accelerator, board.KernelLine(accelerator)),
		"-name", h.group(), "-smp", strconv.Itoa(int(h.state.CPUs)), "-m", strconv.FormatInt(h.state.Memory>>20, 10)+"M",
		"-rtc", "base="+now.Add(m.ClockOffset).UTC().Format("2006-01-02T15:04:05"),
		"-chardev", "file,id=console,append=on,path="+qemu.Escaped(h.consolePath()), "-serial", "chardev:console",
		"-netdev", "tap,id=cable,script=no,downscript=no,ifname="+h.tap(), "-device", "virtio-net-pci,netdev=cable,mac="+h.cableCard(),
		"-netdev", "user,id=shell,restrict=on,hostfwd=tcp:127.0.0.1:"+strconv.Itoa(m.Port)+"-:22", "-device", "virtio-net-pci,netdev=shell,mac="+shellCard)
	args = append(args, qemu.Disk("system", h.overlay(), "qcow2", false)...)
	args = append(args, qemu.Disk(upstream.SeedSerial, filepath.Join(h.dir, seedDisk), "raw", true)...)
	for i := range h.state.USB {
		args = append(args, qemu.Disk(usbName(i), h.usbDisk(i), "raw", true)...)
	}
	return args
}

// probeTime is long for a kernel to boot with hardware acceleration, which takes a second or two.
const probeTime = 40 * time.Second

// probed is the kernel's message when the program that the probe starts has ended.
const probed = "Kernel panic"

// accelerator returns how QEMU runs machines here. A /dev/kvm that can be opened is not enough: in a machine that is virtual itself, a
// kernel may hang under it. So a kernel is booted once, with an end, each time that this machine was booted.
func (r *Rack) accelerator(ctx context.Context, board qemu.Board, system string) (string, error) {
	if board.Foreign() {
		r.progress(fmt.Sprintf(slow, "this machine has another architecture"))
		return qemu.Emulated, nil
	}
	boot, err := proc.Boot()
	if err != nil {
		return "", err
	}
	answer := filepath.Join(r.dir, "accelerator")
	if data, err := os.ReadFile(answer); err == nil {
		if id, accelerator, _ := strings.Cut(strings.TrimSpace(string(data)), " "); id == boot {
			return accelerator, nil
		}
	}
	accelerator := qemu.Emulated
	if why := openable("/dev/kvm"); why != nil {
		r.progress(fmt.Sprintf(slow, why))
	} else if why := probeKVM(ctx, board, system, probeTime); why == nil {
		accelerator = qemu.Accelerated
	} else if ctx.Err() != nil {
		return "", ctx.Err()
	} else {
		r.progress(fmt.Sprintf(slow, why))
	}
	return accelerator, writeFile(answer, []byte(boot+" "+accelerator+"\n"), 0o600)
}

// slow says why machines are emulated.
const slow = "virtual machines are emulated, which takes about ten times as long: %v"

func openable(device string) error {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// probeKVM boots a kernel under KVM as far as its first program, which takes no longer than most.
func probeKVM(ctx context.Context, board qemu.Board, system string, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	args := append(boot(board, system, qemu.Accelerated, "rdinit=/bin/true panic=-1"), "-m", "512M", "-no-reboot", "-serial", "stdio")
	cmd := exec.CommandContext(ctx, board.Tool.Program, args...)
	cmd.WaitDelay = outputGrace
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), probed) {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("a kernel hangs under KVM: it did not start a program within %v", most)
	}
	return fmt.Errorf("a kernel does not boot under KVM: %w: %s", err, lastLine(string(out)))
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
