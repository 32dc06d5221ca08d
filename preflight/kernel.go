package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// What the kernel tells about itself under /proc and /sys.

func (p probes) memory(_ context.Context, r *Reporter) {
	total, err := p.memTotal()
	switch {
	case err != nil:
		r.unknown(err)
	case total < minMemory:
		r.Warnf("give the host more", "%d MiB of memory; a control plane wants %d", total>>20, minMemory>>20)
	default:
		r.Passf("%d MiB", total>>20)
	}
}

// memTotal reads MemTotal of proc_meminfo(5), which is in KiB, and returns bytes.
func (p probes) memTotal() (uint64, error) {
	text, err := fs.ReadFile(p.host.Root, "proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == "MemTotal:" {
			kib, err := strconv.ParseUint(fields[1], 10, 54)
			if err != nil {
				return 0, fmt.Errorf("/proc/meminfo: %w", err)
			}
			return kib << 10, nil
		}
	}
	return 0, errors.New("/proc/meminfo has no MemTotal")
}

// swap reads proc_swaps(5): a heading, then a line per area in use.
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
		r.Warnf("switch it off with swapoff -a and take it out of /etc/fstab", "swap is on (%s); memory limits of pods will not hold", strings.Join(areas, ", "))
		return
	}
	r.Passf("off")
}

// The controllers without which kubelet or runc do not start a pod (kubeadm's SystemVerification). On cgroup v2 devices
// and freezer are not controllers but always there.
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
		r.Failf("boot a kernel with them switched on (cgroup_enable=…)", "cgroup v%d lacks the controllers %s", version, strings.Join(missing, ", "))
	case version == 1:
		r.Warnf("boot with systemd.unified_cgroup_hierarchy=1 where that is possible", "cgroup v1; Kubernetes is about to drop it")
	default:
		r.Passf("v%d", version)
	}
}

// controllers lists the cgroup controllers that are switched on: cgroup.controllers of the unified hierarchy
// (cgroups(7)), or else the lines of /proc/cgroups that end in 1.
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
