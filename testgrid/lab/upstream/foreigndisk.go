package upstream

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sealift/sealift/testgrid/lab/debian"
	"github.com/sealift/sealift/testgrid/lab/qemu"
)

// foreignPackages are those of machinePackages without the tools that make an initial file system: they need a processor of the
// architecture, and the kernel has to boot before anything can run. busybox-static is what runs first.
func foreignPackages(arch string) []string {
	return []string{"linux-image-cloud-" + arch, "busybox-static", "zstd", "udev", "kmod", "openssh-server"}
}

// diskModules are the modules with which Debian's cloud kernel finds a virtio disk, in the order in which they are loaded. ext4 is built in.
func diskModules() []string {
	return []string{"virtio", "virtio_ring", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_blk"}
}

// finished is what the machine that ends an installation says at last.
const finished = "sealift-lab: installed"

// initScript is the first program of a machine. It ends the installation of a new disk and switches the machine off, or starts the
// system.
const initScript = `#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in %s; do insmod /lib/$module.ko; done
for try in $(seq 600); do
	[ -b ` + qemu.RootDevice + ` ] && break
	sleep 0.1
done
mount -t ext4 ` + qemu.RootDevice + ` /root
mount --move /dev /root/dev
if [ -e /root/` + debian.FinishPath + ` ]; then
	chroot /root /` + debian.FinishPath + ` && echo ` + finished + `
	umount /root/proc /root/sys
	sync
	mount -o remount,ro /root
	poweroff -f
fi
umount /proc /sys
exec switch_root /root /sbin/init
`

// finishTime is long for the installation of a hundred packages on an emulated processor of a busy machine, which takes ten minutes.
const finishTime = time.Hour

// makeForeign makes the disk of a machine of another architecture. That machine installs its packages itself.
func (s SystemDisk) makeForeign(ctx context.Context, tree, dir string) error {
	if err := debian.UnfinishedTree(ctx, tree, s.Suite, s.Arch, append(foreignPackages(s.Arch), s.Packages...)); err != nil {
		return err
	}
	if err := makeInitrd(ctx, tree, dir); err != nil {
		return err
	}
	if err := prepareMachine(tree); err != nil {
		return err
	}
	disk := filepath.Join(dir, DiskName)
	if err := MakeDisk(ctx, tree, disk, s.Size, "system"); err != nil {
		return err
	}
	if err := os.RemoveAll(tree); err != nil {
		return err
	}
	return finish(ctx, qemu.BoardOf(s.Arch), dir)
}

// makeInitrd places the kernel of an unfinished tree into dir, with an initial file system that has initScript and what it needs.
func makeInitrd(ctx context.Context, tree, dir string) error {
	work := filepath.Join(dir, "initrd")
	kernel, root := filepath.Join(work, "kernel"), filepath.Join(work, "root")
	for _, folder := range []string{kernel, "bin", "lib", "dev", "proc", "sys", "root"} {
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(root, folder)
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	for pattern, to := range map[string]string{"linux-image-[0-9]*.deb": kernel, "busybox-static_*.deb": root} {
		if err := debian.Unpack(ctx, tree, pattern, to); err != nil {
			return err
		}
	}
	files := map[string]string{"boot/vmlinuz-*": filepath.Join(dir, KernelName)}
	for _, module := range diskModules() {
		files["lib/modules/*/kernel/drivers/*/"+module+".ko"] = filepath.Join(root, "lib", module+".ko")
	}
	for pattern, to := range files {
		if err := copyOnly(kernel, pattern, to); err != nil {
			return err
		}
	}
	script := fmt.Sprintf(initScript, strings.Join(diskModules(), " "))
	if err := os.WriteFile(filepath.Join(root, "init"), []byte(script), 0o755); err != nil {
		return err
	}
	pack := exec.CommandContext(ctx, "sh", "-ec", `cd "$1"; find bin lib dev proc sys root init | cpio --quiet -o -H newc -R 0:0 | gzip -n >"$2"`, "sh", root, filepath.Join(dir, InitrdName))
	if _, err := run(ctx, pack); err != nil {
		return err
	}
	return os.RemoveAll(work)
}

// finish boots a new disk, which installs itself and switches the machine off.
func finish(ctx context.Context, board qemu.Board, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	args := board.Args(qemu.Emulated, filepath.Join(dir, KernelName), filepath.Join(dir, InitrdName), board.KernelLine(qemu.Emulated)+" panic=-1")
	args = append(args, "-smp", "2", "-m", "2G", "-no-reboot", "-serial", "stdio")
	out, err := run(ctx, exec.CommandContext(ctx, board.Tool.Program, append(args, qemu.Disk("system", filepath.Join(dir, DiskName), "raw", false)...)...))
	if err != nil {
		return err
	}
	if !strings.Contains(string(out), finished) {
		return fmt.Errorf("the machine did not install its system:\n%s", lastLines(string(out), 30))
	}
	return nil
}
