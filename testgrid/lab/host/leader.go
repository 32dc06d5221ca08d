package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// leader finds the host's first process, which has the host's namespaces. A reboot changes it.
func (h *Host) leader() (int, error) {
	gone := fmt.Errorf("host %s is not running; remove it and boot it again", h.state.Name)
	if h.state.Manager == nil || !h.state.Manager.alive() {
		return 0, gone
	}
	for _, nspawn := range children(h.state.Manager.PID) {
		for _, pid := range children(nspawn) {
			if isFirstProcess(pid) {
				return pid, nil
			}
		}
	}
	return 0, gone
}

// children lists the child processes of a process. If the process is gone, there are none.
func children(pid int) []int {
	id := strconv.Itoa(pid)
	data, err := os.ReadFile(filepath.Join("/proc", id, "task", id, "children"))
	if err != nil {
		return nil
	}
	var list []int
	for field := range strings.FieldsSeq(string(data)) {
		if child, err := strconv.Atoi(field); err == nil {
			list = append(list, child)
		}
	}
	return list
}

// isFirstProcess reports whether a process is number 1 of its own PID namespace.
func isFirstProcess(pid int) bool {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			fields := strings.Fields(ids)
			return len(fields) > 1 && fields[len(fields)-1] == "1"
		}
	}
	return false
}
