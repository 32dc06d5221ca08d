package builder_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/sealift/sealift/builder/cache"
)

// memoryBudget bounds the resident memory of a build, in bytes, whatever the size of its images.
const memoryBudget = 128 << 20

func TestMemoryIsIndependentOfImageSize(t *testing.T) {
	w := newWorld(t, "debian-12")
	w.push(t, "large:1", layer(1, 160<<20), layer(2, 160<<20))
	dir := addOn(t, "large", "image large registry.example.io/large:1\napt socat\n")
	// Resident memory is measured per process, so the build gets its own.
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBuildInItsOwnProcess$")
	cmd.Env = append(os.Environ(), ownProcess+"="+strings.Join([]string{w.config, dir, t.TempDir(), t.TempDir()}, "\n"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// ownProcess names the variable with the task of a child of TestMemoryIsIndependentOfImageSize.
const ownProcess = "BUILDER_TEST_OWN_PROCESS"

func TestBuildInItsOwnProcess(t *testing.T) {
	task := strings.Split(os.Getenv(ownProcess), "\n")
	if len(task) != 4 {
		return // TestMemoryIsIndependentOfImageSize runs this
	}
	c, err := cache.Open(task[2])
	if err != nil {
		t.Fatal(err)
	}
	w := &world{config: task[0], targets: []string{"debian-12"}}
	if _, err := w.builder(t, c, 8).Build(t.Context(), task[1], task[3]); err != nil {
		t.Fatal(err)
	}
	if peak := peakMemory(t); peak > memoryBudget {
		t.Errorf("a build of 320 MiB had %d MiB resident, at most %d are allowed", peak>>20, memoryBudget>>20)
	}
}

// peakMemory is the most that this process or one that it ran and waited for had resident, in bytes. getrusage on this process
// itself would count its parent too, whose memory it shared until exec.
func peakMemory(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	var own int64
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &own); err == nil {
			break
		}
	}
	var children syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &children); err != nil {
		t.Fatal(err)
	}
	if own == 0 {
		t.Fatalf("no peak of resident memory in\n%s", status)
	}
	return max(own, children.Maxrss) << 10 // both are KiB
}
