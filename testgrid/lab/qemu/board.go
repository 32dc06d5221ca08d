// Package qemu has the command lines of the lab's virtual machines, for each architecture. It starts nothing.
package qemu

import (
	"runtime"
	"strings"

	"github.com/sealift/sealift/testgrid/lab/debian"
)

// The ways in which QEMU runs a machine's instructions.
const (
	Accelerated = "kvm"
	Emulated    = "tcg"
)

// The devices that all boards have under the same names.
const (
	// RootDevice is the first disk.
	RootDevice = "/dev/vda"
	// random feeds the kernel's random numbers. Without it, a slow machine waits for them.
	random = "virtio-rng-pci"
)

// Board is a virtual machine of one architecture without its disks and network cards.
type Board struct {
	Tool    debian.Tool // QEMU for the architecture
	arch    string
	machine []string // the settings of the board
	cpu     string   // an emulated processor
	console string   // the kernel's name of the first serial port
	clock   string   // arguments of the kernel on an emulated processor
}

// BoardOf returns the board of an architecture, such as arm64.
func BoardOf(arch string) Board {
	if arch == "arm64" {
		// A real processor without pointer authentication, which takes a good part of the time to emulate.
		return Board{arch: arch, Tool: debian.QEMUARM, machine: []string{"-machine", "virt"}, cpu: "cortex-a72", console: "ttyAMA0", clock: " kpti=off"}
	}
	// Without a trusted time stamp counter, the kernel of an emulated machine reads a timer for each look at the clock, which makes
	// everything three times as slow.
	return Board{arch: "amd64", Tool: debian.QEMU, machine: []string{"-machine", "q35"}, cpu: "max,la57=off", console: "ttyS0", clock: " clocksource=tsc tsc=reliable"}
}

// Foreign reports whether the board has another architecture than this machine, so that it is always emulated.
func (b Board) Foreign() bool { return b.arch != runtime.GOARCH }

// Args are the settings that all machines have in common: no devices but those that are named, and the kernel with its arguments.
func (b Board) Args(accelerator, kernel, initrd, line string) []string {
	args := append([]string{"-nodefaults", "-no-user-config", "-display", "none"}, b.machine...)
	args = append(args, "-kernel", kernel, "-initrd", initrd, "-append", "console="+b.console+" "+line, "-device", random)
	if accelerator == Accelerated {
		return append(args, "-accel", "kvm", "-cpu", "host")
	}
	return append(args, "-accel", "tcg,thread=multi,tb-size=512", "-cpu", b.cpu)
}

// KernelLine are the arguments of a kernel that boots a system from RootDevice. Mitigations make an emulated machine slow, and protect
// nothing here.
func (b Board) KernelLine(accelerator string) string {
	line := "root=" + RootDevice + " rw loglevel=4 net.ifnames=0 mitigations=off transparent_hugepage=never"
	if accelerator == Emulated {
		line += b.clock
	}
	return line
}

// Disk are the settings of one disk, which the machine finds by its serial number. What the machine did not flush is lost with its power.
func Disk(serial, file, format string, readOnly bool) []string {
	drive := "if=none,cache=writeback,discard=unmap,id=" + serial + ",format=" + format + ",file=" + Escaped(file)
	if readOnly {
		drive += ",read-only=on"
	}
	return []string{"-drive", drive, "-device", "virtio-blk-pci,drive=" + serial + ",serial=" + serial}
}

// Escaped protects a path in the value of an option.
func Escaped(path string) string { return strings.ReplaceAll(path, ",", ",,") }
