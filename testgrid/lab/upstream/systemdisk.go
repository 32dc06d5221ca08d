package upstream

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/sealift/sealift/testgrid/lab/debian"
	"github.com/sealift/sealift/testgrid/lab/qemu"
)

// The files in the component of a SystemDisk.
const (
	DiskName   = "disk.img"   // ext4 without partitions
	KernelName = "vmlinuz"    // of the disk's system
	InitrdName = "initrd.img" // of the disk's system
)

// SeedSerial is the serial number of the virtio disk with the files of one host: a tar archive without a file system.
const SeedSerial = "seed"

// SystemDisk is the disk of a virtual machine with a small Debian system, and the kernel that boots it. The system unpacks the disk with
// the serial number SeedSerial into its root when it boots for the first time, and runs /etc/sealift-lab/setup from it at each boot. A
// secure shell server in a network namespace of its own, called lab, serves the machine that runs the virtual machine.
type SystemDisk struct {
	Suite    string
	Packages []string // besides those that every virtual machine needs
	Size     int64    // of the disk, in bytes; the file has holes
	Arch     string   `json:",omitempty"` // arm64; empty for amd64
}

// machinePackages are what a virtual machine needs and a container does not: a kernel, what finds its devices, and a way in.
func machinePackages() []string {
	return []string{"linux-image-cloud-amd64", "initramfs-tools", "zstd", "udev", "kmod", "openssh-server"}
}

// Needs implements Recipe.
func (s SystemDisk) Needs() []string { return nil }

// Tools implements Recipe.
func (s SystemDisk) Tools() []debian.Tool {
	tools := append(debian.TreeTools(), debian.MakeExt4)
	if s.Arch != "" {
		tools = append(tools, debian.CPIO, qemu.BoardOf(s.Arch).Tool)
	}
	return tools
}

// Make implements Recipe.
func (s SystemDisk) Make(ctx context.Context, _ *Workshop, dir string) error {
	tree := filepath.Join(dir, TreeName)
	if s.Arch != "" {
		return s.makeForeign(ctx, tree, dir)
	}
	if err := debian.MakeTree(ctx, tree, s.Suite, append(machinePackages(), s.Packages...)); err != nil {
		return err
	}
	for _, name := range []string{KernelName, InitrdName} {
		if err := copyOnly(tree, "boot/"+name+"-*", filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if err := prepareMachine(tree); err != nil {
		return err
	}
	if err := MakeDisk(ctx, tree, filepath.Join(dir, DiskName), s.Size, "system"); err != nil {
		return err
	}
	return os.RemoveAll(tree)
}

// copyOnly copies the one file of a tree that a pattern matches.
func copyOnly(tree, pattern, to string) error {
	found, err := filepath.Glob(filepath.Join(tree, pattern))
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return fmt.Errorf("the tree of a virtual machine has %d files /%s, not one", len(found), pattern)
	}
	return copyFile(found[0], to)
}

// MakeDisk writes a disk image with an ext4 file system of a size in bytes, without mounting it. It holds a copy of folder.
func MakeDisk(ctx context.Context, folder, image string, size int64, label string) error {
	kilobytes := strconv.FormatInt(size>>10, 10) + "k"
	// Without lazy initialisation the guest's kernel has nothing left to write, which would disturb what runs there.
	cmd := exec.CommandContext(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-L", label, "-E", "lazy_itable_init=0,lazy_journal_init=0", "-d", folder, image, kilobytes)
	_, err := run(ctx, cmd)
	return err
}

// setupUnit runs before anything else that a virtual machine starts. The files of the host are unpacked once: what the system changed in
// them stays, as on a disk of its own.
const setupUnit = `[Unit]
Description=Lab host: files, address and network cable of this host
DefaultDependencies=no
Requires=dev-disk-by\x2did-virtio\x2d` + SeedSerial + `.device
After=dev-disk-by\x2did-virtio\x2d` + SeedSerial + `.device systemd-remount-fs.service systemd-udev-trigger.service
Before=sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -euc 'test -e /etc/sealift-lab/setup || { tar -x -C / -f /dev/disk/by-id/virtio-` + SeedSerial + `; sync; }; exec /bin/sh /etc/sealift-lab/setup'
`

// shellUnit serves what the lab runs in the host. It has a network namespace of its own, so that the host has one network cable, and
// nothing that a test does to the host's network ends the connection. What it runs joins the host's network.
const shellUnit = `[Unit]
Description=Lab host: way in
Requires=sealift-lab.service
After=sealift-lab.service

[Service]
RuntimeDirectory=sshd
NetworkNamespacePath=/run/netns/lab
ExecStart=/usr/sbin/sshd -D -e -f /etc/sealift-lab/sshd_config
KillMode=process

[Install]
WantedBy=multi-user.target
`

// shellConfig lets root in by the key in the host's files. Without PAM there is no session to begin, which takes a second on a slow host.
const shellConfig = `HostKey /etc/sealift-lab/host_key
AuthorizedKeysFile /etc/sealift-lab/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
UsePAM no
UseDNS no
MaxStartups 100
MaxSessions 100
`

// prepareMachine adds the files to a tree with which its system runs as a virtual machine of the lab.
func prepareMachine(tree string) error {
	files := map[string]string{
		"etc/systemd/system/sealift-lab.service":       setupUnit,
		"etc/systemd/system/sealift-lab-shell.service": shellUnit,
		"etc/sealift-lab/sshd_config":                  shellConfig,
	}
	for path, content := range files {
		full := filepath.Join(tree, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			return err
		}
	}
	links := map[string]string{
		"sysinit.target.wants/sealift-lab.service":          "../sealift-lab.service",
		"multi-user.target.wants/sealift-lab-shell.service": "../sealift-lab-shell.service",
		// The server of the package would be a second one.
		"ssh.service": "/dev/null",
		// A console nobody reads, and package downloads that would take apt's lock at a random moment only to fail.
		"serial-getty@ttyS0.service": "/dev/null",
		"getty@tty1.service":         "/dev/null",
		"apt-daily.timer":            "/dev/null",
		"apt-daily-upgrade.timer":    "/dev/null",
	}
	for path, target := range links {
		full := filepath.Join(tree, "etc/systemd/system", path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(target, full); err != nil {
			return err
		}
	}
	return nil
}
