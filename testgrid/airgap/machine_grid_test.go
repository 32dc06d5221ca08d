//go:build grid

package airgap_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// machineWith boots a virtual machine with a road's disk, with sealift unpacked on its own disk.
func machineWith(t *testing.T, r delivery, clock time.Time) node {
	t.Helper()
	n := node{lab.Host(t, host.Spec{USB: []string{r.usb}, Machine: &host.MachineSpec{Clock: clock}}), t}
	n.must(unpackSealift + "; sync")
	return n
}

// losesPowerAndClock takes the power from a virtual machine. Its clock then says something else.
func (n node) losesPowerAndClock(clock time.Time) {
	n.t.Helper()
	if err := n.PowerCycle(n.t.Context(), func() error { return n.SetClock(clock) }); err != nil {
		n.t.Fatal(err)
	}
}

// TestPreflightNamesTheClockOfAVirtualMachine uses a clock that is years ahead, one whose battery is dead, and one that is right. The dead
// battery takes the power with it, and what was not synced to the disk.
func TestPreflightNamesTheClockOfAVirtualMachine(t *testing.T) {
	r := build(t, current, "debian-12")
	n := machineWith(t, r, time.Now().AddDate(5, 0, 0))
	for script, want := range map[string]string{
		"stat -f -c %T /sys/fs/cgroup":            "cgroup2fs",
		"systemctl is-system-running":             "running",
		"systemd-detect-virt --container || true": "none",
		"ls /sys/class/net | tr '\\n' ' '":        "host0 lo ",
		"ip route show default; timeout 5 bash -c ': </dev/tcp/10.90.0.1/22' 2>/dev/null || echo no": "no",
	} {
		if got := strings.TrimSuffix(n.must(script), "\n"); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
	ahead := n.answers(look, 0)
	wants(t, ahead, "clock", "warn", "the clock says "+time.Now().AddDate(5, 0, 0).UTC().Format("2006-01"), "timedatectl set-time")
	wants(t, ahead, "cgroups", "pass", "", "")

	n.must("echo kept >/root/kept; sync /root/kept; echo lost >/root/lost")
	n.losesPowerAndClock(time.Unix(0, 0))
	if got := n.must("cd /root; cat kept; cat lost 2>/dev/null || echo none"); got != "kept\nnone\n" {
		t.Errorf("after the loss of power there is %q", got)
	}
	wants(t, n.answers(look, 0), "clock", "warn", "and the bundle was written on", "timedatectl set-time")

	n.losesPowerAndClock(time.Now())
	wants(t, n.answers(look, 0), "clock", "pass", time.Now().UTC().Format("2006-01"), "")
}

// TestVirtualMachineBecomesACluster installs on a host with control groups of version 2 and the systemd driver, which may be ten times as
// slow as this machine. The node comes back after a reboot.
func TestVirtualMachineBecomesACluster(t *testing.T) {
	r := build(t, current, "debian-12")
	n := machineWith(t, r, time.Time{})
	n.must(install)
	cluster(n)
	config := n.must(kubectl + "get --raw /api/v1/nodes/" + n.Name() + "/proxy/configz")
	if !strings.Contains(config, `"cgroupDriver":"systemd"`) {
		t.Errorf("the kubelet's driver: %s", config)
	}
	n.limitsPod()
	n.comesBackAfterReboot()
}

// TestSlowAndSmallHostsInstall uses a host with a tenth of two processors of this machine, and one with two processors that are half as fast
// and 2 GiB of memory.
func TestSlowAndSmallHostsInstall(t *testing.T) {
	r := build(t, current, "debian-12")
	for name, spec := range map[string]host.Spec{"slow": {CPUs: 0.2}, "small": {CPUs: 1, Memory: 2 << 30}} {
		t.Run(name, func(t *testing.T) {
			spec.USB = []string{r.usb}
			n := node{lab.Host(t, spec), t}
			n.must(unpackSealift)
			began := time.Now()
			t.Log(n.must(install))
			t.Logf("installed in %v; processes used %s bytes at most", time.Since(began).Round(time.Second), n.must("cat /sys/fs/cgroup/memory/memory.max_usage_in_bytes"))
			cluster(n)
			secondRun(n)
		})
	}
}
