package host

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/internal/testing/fixture"
)

// TestContainersEndWithTheirShims starts what looks like a shim with a container in which something runs.
func TestContainersEndWithTheirShims(t *testing.T) {
	dir := t.TempDir()
	shim := filepath.Join(dir, "containerd-shim-test")
	if err := fixture.WriteProgram(shim, "#!/bin/bash\nsetsid sleep 3600 & echo $! >>"+dir+"/pids; wait\n"); err != nil {
		t.Fatal(err)
	}
	start := func(namespace string) *exec.Cmd {
		cmd := exec.Command("bash", "-c", `exec -a "$0" bash "$0" -namespace "$1" -id x`, shim, namespace)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	ours, others := start("sealift-test"), start("others")
	defer func() { _ = others.Process.Kill(); _ = others.Wait() }()
	var pids []string
	for len(pids) < 2 {
		data, _ := os.ReadFile(dir + "/pids")
		pids = strings.Fields(string(data))
		time.Sleep(10 * time.Millisecond)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = ours.Wait() // it was killed, or ended since its only child was killed first
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := KillContainers(ctx, "sealift-test"); err != nil {
		t.Fatal(err)
	}
	<-ended
	alive := 0
	for _, pid := range pids {
		n, err := strconv.Atoi(pid)
		if err != nil {
			t.Fatal(err)
		}
		if list, err := processes(); err == nil && list[n].args != nil {
			alive++
			defer func() { _ = unix.Kill(n, unix.SIGKILL) }()
		}
	}
	if alive != 1 {
		t.Errorf("%d containers run, want that of the other namespace alone", alive)
	}
}

func TestStatesAreComparedInBothDirections(t *testing.T) {
	before := State{Links: []string{"lo", "eth0"}, Swaps: []string{"/swap"}, Sysctls: map[string]string{"net/ipv4/ip_forward": "0", "vm/swappiness": "60"}}
	now := State{Links: []string{"lo", "eth0", "cni0"}, Sysctls: map[string]string{"net/ipv4/ip_forward": "1", "vm/swappiness": "60", "net/new": "1"}}
	var got []string
	for _, d := range now.Differences(before) {
		got = append(got, d.What+" "+d.Why)
	}
	want := []string{"swap /swap was there before", "network interface cni0 was not there before", "sysctl net.ipv4.ip_forward is 1, and was 0 before"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestStateOfThisHostIsRead(t *testing.T) {
	s, err := ReadState(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(s.Links, "lo") || !slices.Contains(s.Mounts, "/proc") || s.Sysctls["vm/overcommit_memory"] == "" {
		t.Errorf("%+v", s)
	}
}

// TestStoppedListsDeadUnits asks a systemctl that reports the state in the name of a unit.
func TestStoppedListsDeadUnits(t *testing.T) {
	dir := t.TempDir()
	text := "#!/bin/sh\nIFS=_; for u; do :; done; set -- ${u%.service}; printf 'Type=%s\\nUnitFileState=%s\\nActiveState=%s\\n' $1 $2 $3\n"
	if err := fixture.WriteProgram(filepath.Join(dir, "systemctl"), text); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	got := Stopped(t.Context(), []string{"simple_enabled_active.service", "simple_enabled_inactive.service", "simple_disabled_inactive.service",
		"oneshot_enabled_inactive.service", "oneshot_static_inactive.service", "oneshot_static_activating.service", "oneshot_static_failed.service"})
	if want := []string{"simple_enabled_inactive.service", "oneshot_static_failed.service"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
