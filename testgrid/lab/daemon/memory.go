package daemon

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// PeakMemory returns a process's peak resident memory in bytes since its start or since ForgetPeak. It includes the pages
// of the program itself.
func PeakMemory(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(status), "\nVmHWM:")
	if !ok {
		return 0, fmt.Errorf("process %d: the kernel does not report its memory", pid)
	}
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	return kib << 10, err
}

// ForgetPeak resets PeakMemory.
func ForgetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}
