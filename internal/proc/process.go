// Package proc reads /proc: it distinguishes processes whose IDs are reused, and reads the tables of the kernel.
package proc

import (
	"fmt"
	"os"
	"strings"
)

// Started returns when a process started, in clock ticks since boot: field 22 of /proc/PID/stat, proc(5). With the id, it names
// one process of this boot. The error is os.ErrProcessDone for a process that has ended and was not waited for.
func Started(pid int) (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field is a name in brackets, which may contain any character.
	stat := string(data)
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return "", fmt.Errorf("/proc/%d/stat is not as proc(5) says", pid)
	}
	if state := fields[0]; state == "Z" || state == "X" {
		return "", os.ErrProcessDone
	}
	return fields[19], nil
}

// Boot returns the id of this machine's boot.
func Boot() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
}
