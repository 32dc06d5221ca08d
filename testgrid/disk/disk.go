// Package disk gives tests file systems of their own, for what happens to real ones: they fill up, and they lose power.
package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/testgrid/short"
)

// Disk is an ext4 file system in a file.
type Disk struct {
	t     testing.TB
	image string
	path  string
}

// New makes a disk of so many bytes and mounts it, which needs root. It goes with the test.
func New(t testing.TB, size int64) *Disk {
	t.Helper()
	short.Skip(t, "a file system of its own, and so root")
	d := &Disk{t: t, image: filepath.Join(t.TempDir(), "image"), path: t.TempDir()}
	file, err := os.Create(d.image)
	if err == nil {
		err = errors.Join(file.Truncate(size), file.Close())
	}
	if err != nil {
		t.Fatalf("make a disk: %v", err)
	}
	d.run("mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0", d.image)
	d.mount()
	t.Cleanup(func() {
		if err := unix.Unmount(d.path, 0); err != nil {
			t.Errorf("unmount %s: %v", d.path, err)
		}
	})
	return d
}

// Path is the folder at which it is mounted.
func (d *Disk) Path() string { return d.path }

func (d *Disk) run(name string, args ...string) {
	d.t.Helper()
	out, err := exec.CommandContext(context.WithoutCancel(d.t.Context()), name, args...).CombinedOutput()
	if err != nil {
		d.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

// mount has the kernel write by itself as late as it can: what a program does not sync is then lost with the power.
func (d *Disk) mount() {
	d.t.Helper()
	d.run("mount", "-t", "ext4", "-o", "loop,commit=300", d.image, d.path)
}

// Fill leaves no space on the disk until free is called.
func (d *Disk) Fill() (free func()) {
	d.t.Helper()
	name := filepath.Join(d.path, "fill")
	file, err := os.Create(name)
	if err != nil {
		d.t.Fatalf("fill %s: %v", d.path, err)
	}
	defer file.Close()
	for size := int64(1 << 40); size > 0; { // what is left has holes: large pieces first
		if err := unix.Fallocate(int(file.Fd()), 0, end(file), size); err != nil {
			size /= 2
		}
	}
	return func() {
		d.t.Helper()
		if err := os.Remove(name); err != nil {
			d.t.Fatalf("free %s: %v", d.path, err)
		}
	}
}

func end(file *os.File) int64 {
	info, err := file.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// The request that takes a file system from the kernel as the loss of power does, and the flag that keeps it from writing its
// journal first: FS_IOC_SHUTDOWN, which every file system takes that has it from XFS, and EXT4_GOING_FLAGS_NOLOGFLUSH.
const (
	shutdown   = 0x8004587d
	noLogFlush = 2
)

// CutPower loses what is not on the disk. From now on all reading and writing fails, until Restore.
func (d *Disk) CutPower() {
	d.t.Helper()
	dir, err := os.Open(d.path)
	if err == nil {
		err = errors.Join(unix.IoctlSetPointerInt(int(dir.Fd()), shutdown, noLogFlush), dir.Close())
	}
	if err != nil {
		d.t.Fatalf("cut the power of %s: %v", d.path, err)
	}
}

// Restore gives the disk power, with what is on it. Nobody may have a file of it open. What is on it goes on in another file: whoever
// made a mount namespace meanwhile holds the file system without power.
func (d *Disk) Restore() error {
	d.t.Helper()
	if err := unix.Unmount(d.path, 0); err != nil {
		return fmt.Errorf("unmount %s: %w", d.path, err)
	}
	d.run("cp", "--sparse=always", d.image, d.image+".next")
	if err := errors.Join(os.Truncate(d.image, 0), os.Rename(d.image+".next", d.image)); err != nil {
		return err
	}
	d.mount()
	return nil
}
