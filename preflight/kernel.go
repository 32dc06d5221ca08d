package preflight

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/sealift/sealift/internal/capacity"
	"github.com/sealift/sealift/internal/fips"
)

// These checks read the kernel's state from /proc and /sys.

func (p probes) memory(_ context.Context, r *Reporter) {
	total, err := capacity.Memory(p.host.Root)
	switch {
	case err != nil:
		r.unknown(err)
	case p.needs.Role == ControlPlane && total < minMemory:
		r.Failf("add memory, or make the host a worker", "%d MiB; a control plane needs at least %d", total>>20, minMemory>>20)
	case p.needs.Role == ControlPlane && total < comfortableMemory:
		r.Warnf("add memory before you run workloads here", "%d MiB; a control plane uses most of it", total>>20)
	default:
		r.Passf("%d MiB", total>>20)
	}
}

// fipsMode warns of a kernel whose cryptography, and that of the libraries that follow it, does not work in the mode of this program.
func (p probes) fipsMode(_ context.Context, r *Reporter) {
	on, err := fips.Kernel(p.host.Root)
	switch {
	case err != nil:
		r.unknown(err)
	case !on:
		r.Warnf(fips.KernelHint, "sealift works in FIPS mode, and the kernel does not")
	default:
		r.Passf("on")
	}
}

// swap reads proc_swaps(5): a heading, then one line per active area.
func (p probes) swap(_ context.Context, r *Reporter) {
	text, err := fs.ReadFile(p.host.Root, "proc/swaps")
	if errors.Is(err, fs.ErrNotExist) { // a kernel without swap
		r.Passf("off")
		return
	}
	if err != nil {
		r.unknown(err)
		return
	}
	var areas []string
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if fields := strings.Fields(line); i > 0 && len(fields) > 0 {
			areas = append(areas, fields[0])
		}
	}
	if len(areas) > 0 {
		r.Warnf(p.swapHint(areas), "swap is on (%s); memory limits of pods will not hold", strings.Join(areas, ", "))
		return
	}
	r.Passf("off")
}

// swapHint describes how to disable swap, and how to keep it disabled after a boot: /etc/fstab is not the only place that enables
// it.
func (p probes) swapHint(areas []string) string {
	var keep []string
	disks := slices.DeleteFunc(slices.Clone(areas), func(area string) bool { return strings.HasPrefix(area, "/dev/zram") })
	if len(disks) < len(areas) {
		keep = append(keep, "uninstall what sets up zram at boot (zram-generator, zram-tools or zramswap)")
	}
	table, err := fs.ReadFile(p.host.Root, "etc/fstab")
	switch {
	case len(disks) == 0:
	case err == nil && !swapEntry.Match(table):
		keep = append(keep, "mask the units that 'systemctl list-units --type swap' lists, which systemd makes for swap partitions")
	default:
		keep = append(keep, "remove it from /etc/fstab")
	}
	return "turn it off with swapoff -a, and " + strings.Join(keep, ", and ")
}

// swapEntry is a line of fstab(5) whose third field is swap.
var swapEntry = regexp.MustCompile(`(?m)^[ \t]*[^#\s]\S*[ \t]+\S+[ \t]+swap\b`)

// requiredControllers are the cgroup controllers that the kubelet and runc need to start a pod (kubeadm's
// SystemVerification). On cgroup v2, devices and freezer are always present and not listed as controllers.
func requiredControllers(version int) []string {
	if version == 2 {
		return []string{"cpu", "cpuset", "memory", "pids"}
	}
	return []string{"cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids"}
}

func (p probes) cgroups(_ context.Context, r *Reporter) {
	version, have, err := p.controllers()
	if err != nil {
		r.unknown(err)
		return
	}
	var missing []string
	for _, name := range requiredControllers(version) {
		if !slices.Contains(have, name) {
			missing = append(missing, name)
		}
	}
	switch {
	case len(missing) > 0:
		r.Failf("boot a kernel that enables them (cgroup_enable=…)", "cgroup v%d lacks the controllers %s", version, strings.Join(missing, ", "))
	case version == 1:
		r.Warnf("boot with systemd.unified_cgroup_hierarchy=1 if you can", "cgroup v1; Kubernetes is dropping support for it")
	default:
		r.Passf("v%d", version)
	}
}

// controllers lists the enabled cgroup controllers: from cgroup.controllers of the unified hierarchy (cgroups(7)), or else
// from the lines of /proc/cgroups that end in 1.
func (p probes) controllers() (version int, names []string, err error) {
	text, err := fs.ReadFile(p.host.Root, "sys/fs/cgroup/cgroup.controllers")
	if err == nil {
		return 2, strings.Fields(string(text)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return 0, nil, err
	}
	text, err = fs.ReadFile(p.host.Root, "proc/cgroups")
	if err != nil {
		return 0, nil, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 4 && fields[3] == "1" {
			names = append(names, fields[0])
		}
	}
	return 1, names, nil
}

// modules checks that the kernel modules for containers and Services are built in, loaded, or loadable.
func (p probes) modules(_ context.Context, r *Reporter) {
	if p.needs.Role == NoNode {
		r.Passf("none are needed")
		return
	}
	release, err := fs.ReadFile(p.host.Root, "proc/sys/kernel/osrelease")
	if err != nil {
		r.unknown(err)
		return
	}
	loadable := p.loadable("lib/modules/" + strings.TrimSpace(string(release)))
	for _, m := range []struct{ name, sign, without string }{
		{"overlay", "proc/filesystems", "container file systems need it"},
		{"br_netfilter", "proc/sys/net/bridge/bridge-nf-call-iptables", "pods cannot reach Services without it"},
	} {
		has := p.hasModule(m.name, m.sign)
		switch {
		case has:
			r.Passf("%s is there", m.name)
		case loadable == nil:
			r.Warnf("check whether modprobe "+m.name+" works on the machine", "cannot tell whether the kernel has %s: /lib/modules has no modules of this kernel; %s", m.name, m.without)
		case loadable(m.name):
			r.Passf("%s can be loaded", m.name)
		default:
			r.Failf("install the package with the kernel's modules, such as linux-modules-extra or kernel-modules-extra", "the kernel has no module %s; %s", m.name, m.without)
		}
	}
}

// hasModule looks in /sys/module, and for a sign of a built-in module: a file, or a line of a file.
func (p probes) hasModule(name, sign string) bool {
	if _, err := fs.Stat(p.host.Root, "sys/module/"+name); err == nil {
		return true
	}
	text, err := fs.ReadFile(p.host.Root, sign)
	return err == nil && (sign != "proc/filesystems" || slices.Contains(strings.Fields(string(text)), name))
}

// loadable returns a lookup in the lists of depmod(8) and of built-in modules, or nil if there are none. A module file may
// be compressed.
func (p probes) loadable(dir string) func(name string) bool {
	var paths []string
	for _, list := range []string{"modules.dep", "modules.builtin"} {
		text, err := fs.ReadFile(p.host.Root, dir+"/"+list)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			file, _, _ := strings.Cut(strings.TrimSpace(line), ":")
			paths = append(paths, path.Base(file))
		}
	}
	if paths == nil {
		return nil
	}
	return func(name string) bool {
		return slices.ContainsFunc(paths, func(file string) bool { return strings.HasPrefix(file, name+".ko") })
	}
}

func (p probes) synchronised(_ context.Context, r *Reporter) {
	synced, err := p.host.ClockSynced()
	switch {
	case err != nil:
		r.unknown(err)
	case !synced:
		r.Warnf("synchronise all nodes with one time server, with chrony or systemd-timesyncd; a single node does not need it", "the clock is not synchronised; nodes with different clocks reject each other's certificates")
	default:
		r.Passf("the clock is synchronised")
	}
}

// EnforcesSELinux reports whether the host with this root file system denies what SELinux's policy forbids. The error is fs.ErrNotExist if
// SELinux is off.
func EnforcesSELinux(root fs.FS) (bool, error) {
	text, err := fs.ReadFile(root, "sys/fs/selinux/enforce")
	return strings.TrimSpace(string(text)) == "1", err
}

func (p probes) selinux(_ context.Context, r *Reporter) {
	enforces, err := EnforcesSELinux(p.host.Root)
	const hint = "install container-selinux, or set selinuxConfig in the Installer; 'ausearch -m avc' lists what was denied"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.Passf("off")
	case err != nil:
		r.unknown(err)
	case !enforces:
		r.Passf("permissive")
	case p.needs.SELinux == HandlingDone:
		r.Passf("enforcing; the Installer handles it")
	default:
		r.Warnf(hint, "enforcing; it may deny pods access to files of the host")
	}
}
