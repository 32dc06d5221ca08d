package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/internal/tail"
)

// outputDelay is how long a program's output is waited for once the program has ended: a daemon that it started may hold it.
const outputDelay = 5 * time.Second

// Command runs a program of the host and gives the end of what it said when it fails. What it leaves running in the background is
// not waited for.
func Command(ctx context.Context, output io.Writer, name string, args ...string) error {
	var said tail.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	cmd.Stdout, cmd.Stderr = output, io.MultiWriter(output, &said)
	cmd.WaitDelay = outputDelay
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("%s: %w: %s", strings.Join(append([]string{filepath.Base(name)}, args...), " "), err, said.String())
	}
	return nil
}

// Unmount unmounts all that is mounted at or below the folders, the deepest first, but what keep names. What is in use is
// taken from its name and goes when its last user does.
func Unmount(folders, keep []string) error {
	mounts, err := fieldsOf("/proc/self/mountinfo", func(f []string) string { return unescape(f[4]) })
	if err != nil {
		return err
	}
	slices.Reverse(mounts) // sorted before, so that now what is below comes first
	folders = slices.Clone(folders)
	for i, folder := range folders { // the kernel's list has no links in it
		if resolved, err := filepath.EvalSymlinks(folder); err == nil {
			folders[i] = resolved
		}
	}
	var errs []error
	for _, mount := range mounts {
		below := slices.ContainsFunc(folders, func(folder string) bool { return mount == folder || strings.HasPrefix(mount, folder+"/") })
		if !below || slices.Contains(keep, mount) {
			continue
		}
		err := unix.Unmount(mount, unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EBUSY) {
			err = unix.Unmount(mount, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
		}
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", mount, err))
		}
	}
	return errors.Join(errs...)
}

// podLinks are the beginnings of interfaces that pod networks make for the node. Those of pods go with them.
func podLinks() []string {
	return []string{"cni", "flannel", "kube-", "nodelocaldns", "cali", "vxlan.calico", "weave", "antrea", "cilium"}
}

// RemoveLinks removes the network interfaces of pod networks but those that keep names.
func RemoveLinks(ctx context.Context, output io.Writer, keep []string) error {
	links, err := net.Interfaces()
	if err != nil {
		return err
	}
	var errs []error
	for _, link := range links {
		if !hasPrefix(link.Name, podLinks()) || slices.Contains(keep, link.Name) {
			continue
		}
		err := Command(ctx, output, "ip", "link", "delete", "dev", link.Name)
		if _, gone := net.InterfaceByName(link.Name); gone == nil { // the other end of a pair goes with the first
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// RemoveRoutes removes routes into the networks, given as prefixes, but those that keep has.
func RemoveRoutes(ctx context.Context, output io.Writer, keep, networks []string) error {
	var errs []error
	var into []netip.Prefix
	for _, n := range networks {
		p, err := netip.ParsePrefix(n)
		if err != nil {
			return err
		}
		into = append(into, p)
	}
	now, err := routeList()
	if err != nil {
		return err
	}
	for _, r := range now {
		if r.destination.Bits() > 0 && overlapsAny(r.destination, into) && !slices.Contains(keep, r.String()) {
			errs = append(errs, Command(ctx, output, "ip", append([]string{"route", "delete"}, strings.Fields(r.String())...)...))
		}
	}
	return errors.Join(errs...)
}

// killPause is the time between two looks at whether processes have ended.
const killPause = 100 * time.Millisecond

// KillContainers kills the processes of all containers in a namespace of containerd, with the shims that hold them.
func KillContainers(ctx context.Context, namespace string) error {
	for {
		tree, err := processes()
		if err != nil {
			return err
		}
		var going []int
		for pid, p := range tree {
			if isShim(p.args, namespace) {
				going = append(append(going, descendants(tree, pid)...), pid)
			}
		}
		if len(going) == 0 {
			return nil
		}
		for _, pid := range going {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("end process %d of a container: %w", pid, err)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d processes of containers do not end: %w", len(going), context.Cause(ctx))
		case <-time.After(killPause):
		}
	}
}

type process struct {
	parent int
	args   []string
}

// processes lists what runs, without what has ended and was not yet taken note of.
func processes() (map[int]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	found := make(map[int]process)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "stat"))
		if err != nil {
			continue // it has ended meanwhile
		}
		// the second field is a name in brackets, which may have any character in it; state and parent follow
		f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(f) < 2 || f[0] == "Z" || f[0] == "X" {
			continue
		}
		parent, err := strconv.Atoi(f[1])
		if err != nil {
			continue
		}
		args, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err != nil {
			continue
		}
		found[pid] = process{parent, strings.Split(strings.TrimRight(string(args), "\x00"), "\x00")}
	}
	return found, nil
}

func isShim(args []string, namespace string) bool {
	if !strings.HasPrefix(filepath.Base(args[0]), "containerd-shim") {
		return false
	}
	i := slices.Index(args, "-namespace")
	return i > 0 && i+1 < len(args) && args[i+1] == namespace
}

func descendants(tree map[int]process, ancestor int) (found []int) {
	for pid, p := range tree {
		if p.parent == ancestor {
			found = append(append(found, descendants(tree, pid)...), pid)
		}
	}
	return found
}
