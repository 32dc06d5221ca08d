package lease

import (
	"os"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/sealift/sealift/internal/proc"
)

// identity makes a name for a holder in this process: the host, the space of the process number, the number, the start of
// the process, and a random word.
func identity() string {
	host, _ := os.Hostname()
	return strings.Join([]string{host, processSpace(), strconv.Itoa(os.Getpid()), startOf(os.Getpid()), rand.String(8)}, "_")
}

// HostOf returns the host of a holder, for people.
func HostOf(holder string) string {
	host, _, _ := strings.Cut(holder, "_")
	return host
}

// gone reports whether a holder was a process of this machine that has ended.
func gone(holder string) bool {
	parts := strings.Split(holder, "_")
	if len(parts) != 5 || processSpace() == "" || parts[1] != processSpace() {
		return false
	}
	pid, err := strconv.Atoi(parts[2])
	return err == nil && startOf(pid) != parts[3]
}

// processSpace names the boot and the process namespace in which a process number means one process. It is empty where the
// kernel does not say.
func processSpace() string {
	boot, err := proc.Boot()
	if err != nil {
		return ""
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return boot + "." + strings.Trim(strings.TrimPrefix(space, "pid:"), "[]")
}

// startOf returns when a process started, or "" when no process has the number.
func startOf(pid int) string {
	start, _ := proc.Started(pid)
	return start
}
