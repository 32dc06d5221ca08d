package host_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// traces lists what hosts leave on a machine while they exist: mounts, interfaces, control groups and processes that have the
// lab's mark or the rack's folder in their names.
func traces(t *testing.T, state string) []string {
	t.Helper()
	var found []string
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, state) {
			found = append(found, "mount "+line)
		}
	}
	rack := host.RackID(state)
	for _, pattern := range []string{"/sys/class/net/sealift-" + rack, "/sys/class/net/sealift-" + rack + "/brif/*", "/sys/fs/cgroup/sealift-lab-" + rack + "*", "/sys/fs/cgroup/*/sealift-lab-" + rack + "*"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, paths...)
	}
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range commands {
		command, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(command), "--machine=sealift-lab-"+rack) {
			found = append(found, "process "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	entries, err := os.ReadDir(filepath.Join(state, "hosts"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		found = append(found, "folder "+entry.Name())
	}
	slices.Sort(found)
	return found
}

func TestRemoveLeavesNothing(t *testing.T) {
	state := stateDir(t)
	rack := openRack(t, state)
	h, err := rack.Boot(t.Context(), host.Spec{Name: "gone"})
	if err != nil {
		t.Fatal(err)
	}
	if len(traces(t, state)) < 4 {
		t.Fatalf("the search for traces is blind: a running host has only %q", traces(t, state))
	}
	// Mounts and processes inside, as a cluster has them.
	if _, err := h.Output(t.Context(), "sh", "-c", "mount -t tmpfs none /var/lib/kubelet && systemd-run --quiet sleep 1000"); err != nil {
		t.Fatal(err)
	}
	if err := rack.Remove(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	if left := traces(t, state); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if h.Running() {
		t.Error("a removed host runs")
	}
}

func TestHostOfKilledProcessIsReaped(t *testing.T) {
	state := stateDir(t)
	killOwner(t, state)
	if len(traces(t, state)) == 0 {
		t.Fatal("the host went with its owner, so that this test shows nothing")
	}
	openRack(t, state)
	if left := traces(t, state); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestProcessKilledDuringBootLeavesNothing(t *testing.T) {
	state := stateDir(t)
	// Killed at the first moment at which something of the host exists.
	owner := startOwner(t, state)
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	if _, err := unix.InotifyAddWatch(watch, filepath.Join(state, "hosts"), unix.IN_CREATE); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(filepath.Join(state, "hosts")); err != nil {
		t.Fatal(err)
	} else if len(entries) == 0 {
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(watch), Events: unix.POLLIN}}, 60_000); n != 1 {
			t.Fatalf("the owner has not begun to boot after a minute: %v", err)
		}
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()
	openRack(t, state)
	if left := traces(t, state); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestKeptHostOutlivesOwner(t *testing.T) {
	state := stateDir(t)
	rack := openRack(t, state)
	if _, err := rack.Boot(t.Context(), host.Spec{Name: "kept", Keep: true}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rack.Remove(context.WithoutCancel(t.Context()), "kept"); err != nil {
			t.Error(err)
		}
	}()
	h, err := openRack(t, state).Find("kept")
	if err != nil {
		t.Fatal(err)
	}
	if !h.Kept() || !h.Running() {
		t.Errorf("kept %t, running %t", h.Kept(), h.Running())
	}
	if _, err := rack.Boot(t.Context(), host.Spec{Name: "kept"}); err == nil || !strings.Contains(err.Error(), "remove it first") {
		t.Errorf("booted a second host of the same name: %v", err)
	}
}

func TestCancelledBootLeavesNothing(t *testing.T) {
	state := stateDir(t)
	rack := openRack(t, state)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := rack.Boot(ctx, host.Spec{Name: "late"}); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if left := traces(t, state); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestRebootedHostIsReentered also proves that a reboot removes control groups, as on a machine, and keeps files.
func TestRebootedHostIsReentered(t *testing.T) {
	state := stateDir(t)
	rack := openRack(t, state)
	h, err := rack.Boot(t.Context(), host.Spec{Name: "again"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rack.Remove(context.WithoutCancel(t.Context()), "again"); err != nil {
			t.Error(err)
		}
	}()
	if _, err := h.Output(t.Context(), "sh", "-c", "echo here > /var/lib/kubelet/mark; echo there > /root/mark; mkdir $(find /sys/fs/cgroup -maxdepth 1 -name memory | grep . || echo /sys/fs/cgroup)/left"); err != nil {
		t.Fatal(err)
	}
	if err := h.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := h.Output(t.Context(), "sh", "-c", "cat /var/lib/kubelet/mark /root/mark; ip -brief address show host0 | grep -c "+h.Address().String()+"; find /sys/fs/cgroup -name left")
	if err != nil || got != "here\nthere\n1" {
		t.Errorf("after a reboot: %q, %v", got, err)
	}
}

// stateDir is a rack's folder on a file system that overlays can be written to. It must not be a test's own folder, whose name
// is long and has the test's name in it.
func stateDir(t *testing.T) string {
	t.Helper()
	short.Root(t, "hosts of the lab")
	dir, err := os.MkdirTemp("/var/lib", "sealift-lab-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := host.OpenRack(context.WithoutCancel(t.Context()), host.Options{StateDir: dir}); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Mkdir(filepath.Join(dir, "hosts"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func startOwner(t *testing.T, state string) *exec.Cmd {
	t.Helper()
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), ownerEnv+"="+state)
	if _, err := owner.StdinPipe(); err != nil { // what it waits for
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	return owner
}

// killOwner runs a process that boots a host, and kills it once the host is up.
func killOwner(t *testing.T, state string) {
	t.Helper()
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), ownerEnv+"="+state)
	if _, err := owner.StdinPipe(); err != nil { // what it waits for
		t.Fatal(err)
	}
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "up\n" {
		t.Errorf("the owner says %q, %v", line, err)
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()
}

// TestStaleInterfaceIsReplaced boots a host whose interface on the bridge still exists from the previous one.
func TestStaleInterfaceIsReplaced(t *testing.T) {
	rack := openRack(t, stateDir(t))
	h, err := rack.Boot(t.Context(), host.Spec{Name: "again"})
	if err != nil {
		t.Fatal(err)
	}
	peer, err := h.Output(t.Context(), "cat", "/sys/class/net/host0/iflink")
	if err != nil {
		t.Fatal(err)
	}
	index, err := strconv.Atoi(strings.TrimSpace(peer))
	if err != nil {
		t.Fatal(err)
	}
	link, err := net.InterfaceByIndex(index)
	if err != nil {
		t.Fatal(err)
	}
	if err := rack.Remove(t.Context(), "again"); err != nil {
		t.Fatal(err)
	}
	command := "for i in $(seq 600); do ip link add " + link.Name + " type veth peer name left-peer && exit 0; sleep 0.1; done; exit 1"
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := rack.Boot(t.Context(), host.Spec{Name: "again"}); err != nil {
		_ = exec.Command("ip", "link", "delete", link.Name).Run()
		t.Fatal(err)
	}
	if err := rack.Remove(t.Context(), "again"); err != nil {
		t.Error(err)
	}
}
