package host

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Hosts share one limit of the kernel's: how many inotify instances root may have. A booted host takes seven and a control
// plane thirty, so that the usual limit of 128 is reached with the sixth host of a cluster, whose systemd then does not start.
const (
	inotifyLimit     = "/proc/sys/fs/inotify/max_user_instances"
	inotifyInstances = 8192
)

// raiseLimits gives the machine room for hosts. It stays when they are gone: others may have come to need it.
func raiseLimits() error {
	text, err := os.ReadFile(inotifyLimit)
	if err != nil {
		return fmt.Errorf("how many hosts this machine has room for: %w", err)
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
