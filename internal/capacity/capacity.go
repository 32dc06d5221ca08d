// Package capacity reports how much of a machine a host may use. A container, such as one of LXC, has limits in the control group at its root,
// and a virtual machine gets less of its processors where others use them, too. Processors are counted by runtime.NumCPU, which sees
// neither.
package capacity

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// root of control groups, of version 2 and of version 1, as cgroups(7) has them. A host that is no container has none of the files there.
const groups = "sys/fs/cgroup/"

// Memory returns the bytes of memory that all processes of the host with this root may use: MemTotal of proc_meminfo(5), or less.
func Memory(root fs.FS) (uint64, error) {
	total, err := memTotal(root)
	if err != nil {
		return 0, err
	}
	for _, name := range []string{"memory.max", "memory/memory.limit_in_bytes"} {
		if limit, err := strconv.ParseUint(firstField(root, groups+name), 10, 64); err == nil {
			total = min(total, limit) // version 1 has a number of 19 digits for none, version 2 "max"
		}
	}
	return total, nil
}

// memTotal reads MemTotal, which is in KiB.
func memTotal(root fs.FS) (uint64, error) {
	text, err := fs.ReadFile(root, "proc/meminfo")
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

// Processors returns how many of cpus processors all processes of the host with this root may use at a time.
func Processors(root fs.FS, cpus int) float64 {
	quota, period := fields(root, groups+"cpu.max")
	if quota == "" {
		quota, period = firstField(root, groups+"cpu/cpu.cfs_quota_us"), firstField(root, groups+"cpu/cpu.cfs_period_us")
	}
	q, err := strconv.ParseFloat(quota, 64)
	p, errPeriod := strconv.ParseFloat(period, 64)
	if err != nil || errPeriod != nil || !(q > 0) || !(p > 0) { // "max" of version 2, -1 of version 1
		return float64(cpus)
	}
	return min(q/p, float64(cpus))
}

// Ticks is the time of all processors together, in units of 10 ms.
type Ticks struct {
	Used   uint64 // by processes and the kernel of this host
	Stolen uint64 // in which they waited for a processor that the hypervisor had given to others
}

// Spent returns the time since the host started, by proc_stat(5). It is zero if it cannot be read.
func Spent(root fs.FS) (t Ticks) {
	text, _ := fs.ReadFile(root, "proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	numbers := strings.Fields(line)
	if len(numbers) < 9 || numbers[0] != "cpu" {
		return Ticks{}
	}
	for i, name := range numbers[1:9] { // user, nice, system, idle, iowait, irq, softirq, steal
		n, err := strconv.ParseUint(name, 10, 64)
		switch {
		case err != nil:
			return Ticks{}
		case i == 7:
			t.Stolen = n
		case i != 3 && i != 4:
			t.Used += n
		}
	}
	return t
}

// Since returns the time since an earlier one.
func (t Ticks) Since(earlier Ticks) Ticks {
	return Ticks{Used: t.Used - min(earlier.Used, t.Used), Stolen: t.Stolen - min(earlier.Stolen, t.Stolen)}
}

func firstField(root fs.FS, name string) string {
	first, _ := fields(root, name)
	return first
}

func fields(root fs.FS, name string) (first, second string) {
	text, _ := fs.ReadFile(root, name)
	first, second, _ = strings.Cut(strings.TrimSpace(string(text)), " ")
	return first, second
}
