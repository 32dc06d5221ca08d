package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/internal/poll"
)

// killPause is the interval at which kill checks whether processes have ended.
const killPause = 100 * time.Millisecond

// KillContainers kills the processes of all containers in a namespace of containerd, with the shims that hold them.
func KillContainers(ctx context.Context, namespace string) error {
	var going []int
	err := poll.Until(ctx, killPause, nil, func(context.Context) (bool, error) {
		tree, err := processes()
		if err != nil {
			return false, err
		}
		going = nil
		for pid, p := range tree {
			if isShim(p.args, namespace) {
				going = append(append(going, descendants(tree, pid)...), pid)
			}
		}
		for _, pid := range going {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return false, fmt.Errorf("kill process %d of a container: %w", pid, err)
			}
		}
		return len(going) == 0, nil
	})
	if poll.Ended(err) {
		return fmt.Errorf("%d processes of containers do not end: %w", len(going), err)
	}
	return err
}

type process struct {
	parent int
	args   []string
}

// processes lists the running processes. It leaves out zombies.
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
			continue // it has ended by now
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
