package host

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Hosts share one kernel limit: the number of inotify instances of root. A booted host uses seven and a control plane
// thirty, so the usual limit of 128 is reached with the sixth host of a cluster. Its systemd then fails to start.
const (
	inotifyLimit     = "/proc/sys/fs/inotify/max_user_instances"
	inotifyInstances = 8192
)

// raiseLimits raises the kernel's limits for hosts. They stay raised, because other programs may depend on them by then.
func raiseLimits() error {
	text, err := os.ReadFile(inotifyLimit)
	if err != nil {
		return fmt.Errorf("find how many hosts fit on this machine: %w", err)
	}
	has, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("%s: %w", inotifyLimit, err)
	}
	if has >= inotifyInstances {
		return nil
	}
	if err := os.WriteFile(inotifyLimit, []byte(strconv.Itoa(inotifyInstances)), 0); err != nil {
		return fmt.Errorf("make room for hosts: %w; run 'sysctl -w fs.inotify.max_user_instances=%d' where that is allowed", err, inotifyInstances)
	}
	return nil
}
