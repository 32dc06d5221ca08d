package isolation

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

	"github.com/sealift/sealift/internal/testing/short"
)

// Disk is an ext4 file system in a file. With it a test sees what happens when a disk is full or loses power.
type Disk struct {
	t     testing.TB
	image string
	path  string
}

// NewDisk makes a disk of a size in bytes and mounts it, which needs root. It is removed with the test.
func NewDisk(t testing.TB, size int64) *Disk {
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

// Path returns the mount point.
func (d *Disk) Path() string { return d.path }

func (d *Disk) run(name string, args ...string) {
	d.t.Helper()
	out, err := exec.CommandContext(context.WithoutCancel(d.t.Context()), name, args...).CombinedOutput()
	if err != nil {
		d.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

// mount delays the kernel's own writeback as long as possible. A power cut then loses everything that a program has not
// synced.
func (d *Disk) mount() {
	d.t.Helper()
	d.run("mount", "-t", "ext4", "-o", "loop,commit=300", d.image, d.path)
}

// Fill leaves no free space on the disk until free is called.
func (d *Disk) Fill() (free func()) {
	d.t.Helper()
	name := filepath.Join(d.path, "fill")
	file, err := os.Create(name)
	if err != nil {
		d.t.Fatalf("fill %s: %v", d.path, err)
	}
	defer file.Close()
	for size := int64(1 << 40); size > 0; { // the free space is fragmented: large chunks first
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

// The request that shuts a file system down like a power loss, and the flag that keeps it from writing its journal first:
// FS_IOC_SHUTDOWN, which came from XFS, and EXT4_GOING_FLAGS_NOLOGFLUSH.
const (
	shutdown   = 0x8004587d
	noLogFlush = 2
)

// CutPower loses everything that is not on disk. All reads and writes fail until Restore.
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

// Restore remounts what is on disk. No file on it may be open. It uses a copy of the backing file, because other mount
// namespaces may still hold the dead file system.
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
