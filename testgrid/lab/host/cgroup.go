package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/moby/sys/mountinfo"

	"github.com/sealift/sealift/internal/poll"
)

// killTimeout is the longest time for the kernel to end a host's processes.
const killTimeout = 30 * time.Second

// killPoll is the time between two checks whether they have ended.
const killPoll = 20 * time.Millisecond

// hierarchy is one mounted tree of control groups: version 2, or an additional version 1 tree.
type hierarchy struct {
	path    string
	version int
}

// hierarchies lists the trees of control groups on this machine, version 2 first. Version 2 is required, because only it
// can kill a whole group.
func hierarchies() ([]hierarchy, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup2", "cgroup"))
	if err != nil {
		return nil, fmt.Errorf("list control groups: %w", err)
	}
	var second, first []hierarchy
	for _, m := range mounts {
		if m.FSType == "cgroup2" {
			second = append(second, hierarchy{m.Mountpoint, 2})
		} else {
			first = append(first, hierarchy{m.Mountpoint, 1})
		}
	}
	if len(second) == 0 {
		return nil, errors.New("this machine has no control groups of version 2, which are needed to stop a lab host; mount them with: " +
			"mount -t cgroup2 none /sys/fs/cgroup/unified")
	}
	return append(second[:1], first...), nil
}

// group returns the name of a host's control group, which is the same in every hierarchy.
func (h *Host) group() string { return "sealift-lab-" + h.rack.id + "-" + h.state.Name }

// makeGroups creates the host's control group in every hierarchy and returns their folders, version 2 first.
func (h *Host) makeGroups() ([]string, error) {
	trees, err := hierarchies()
	if err != nil {
		return nil, err
	}
	if err := passControllers(trees[0].path); err != nil {
		return nil, fmt.Errorf("delegate control groups to host %s: %w", h.state.Name, err)
	}
	var groups []string
	for _, tree := range trees {
		group := filepath.Join(tree.path, h.group())
		if err := os.Mkdir(group, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("make a control group for host %s: %w", h.state.Name, err)
		}
		if err := inheritCPUs(tree.path, group); err != nil {
			return nil, fmt.Errorf("set up a control group for host %s: %w", h.state.Name, err)
		}
		groups = append(groups, group)
	}
	if h.state.Machine == nil {
		if err := limit(groups, h.state.CPUs, h.state.Memory); err != nil {
			return nil, fmt.Errorf("limit host %s: %w", h.state.Name, err)
		}
	}
	return groups, nil
}

// cpuPeriod is the period of a processor quota, which is the kernel's default.
const cpuPeriod = 100 * time.Millisecond

// limit limits what all processes of the groups may use together. 0 is no limit.
func limit(groups []string, cpus float64, memory int64) error {
	quota := strconv.FormatInt(int64(cpus*float64(cpuPeriod.Microseconds())), 10)
	bytes := strconv.FormatInt(memory, 10)
	var limits [][2]string // of version 2, then of version 1: each file is in one of the groups
	if cpus > 0 {
		limits = append(limits, [2]string{"cpu.max", quota}, [2]string{"cpu.cfs_quota_us", quota})
	}
	if memory > 0 {
		limits = append(limits, [2]string{"memory.max", bytes}, [2]string{"memory.limit_in_bytes", bytes})
	}
	var done int
	for _, l := range limits {
		for _, group := range groups {
			switch err := writeExisting(filepath.Join(group, l[0]), l[1]); {
			case err == nil:
				done++
			case !errors.Is(err, fs.ErrNotExist):
				return err
			}
		}
	}
	if done != len(limits)/2 {
		return errors.New("this machine has no control groups for it")
	}
	return nil
}

func writeExisting(name, value string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// passControllers enables all of root's version 2 controllers for the groups below root, because a kubelet needs most of
// them. If version 1 is mounted too, version 2 has no controllers.
func passControllers(root string) error {
	controllers, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(controllers)) {
		if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+"+name), 0); err != nil {
			return fmt.Errorf("controller %s: %w", name, err)
		}
	}
	return nil
}

// inheritCPUs gives a version 1 group its parent's processors and memory nodes. Without them, no process can join the
// group.
func inheritCPUs(parent, group string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(parent, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another controller, or version 2
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(group, name), value, 0); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(group, "cgroup.clone_children"), []byte("1"), 0)
}

// killAll kills every process of the host at once and waits until none is left. If there is none, it returns nil.
func (h *Host) killAll(ctx context.Context) error {
	trees, err := hierarchies()
	if err != nil {
		return err
	}
	group := filepath.Join(trees[0].path, h.group())
	err = os.WriteFile(filepath.Join(group, "cgroup.kill"), []byte("1"), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stop host %s: %w", h.state.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	err = poll.Until(ctx, killPoll, nil, func(context.Context) (bool, error) {
		events, err := os.ReadFile(filepath.Join(group, "cgroup.events"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) { // another process removed the group, which was empty then
			return true, nil
		}
		return strings.Contains(string(events), "populated 0"), err
	})
	if err != nil {
		return fmt.Errorf("wait for the processes of host %s to end: %w", h.state.Name, err)
	}
	return nil
}

// removeGroups removes the host's control groups and all groups inside. They must have no processes.
func (h *Host) removeGroups() error {
	trees, err := hierarchies()
	if err != nil {
		return err
	}
	var errs []error
	for _, tree := range trees {
		errs = append(errs, removeGroup(filepath.Join(tree.path, h.group())))
	}
	return errors.Join(errs...)
}

func removeGroup(group string) error {
	entries, err := os.ReadDir(group)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		if err := removeGroup(filepath.Join(group, entry.Name())); err != nil {
			return err
		}
	}
	if err := os.Remove(group); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a control group: %w", err)
	}
	return nil
}
