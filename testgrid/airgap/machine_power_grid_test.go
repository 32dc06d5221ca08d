//go:build grid

package airgap_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/scenario"
)

// TestVirtualMachineSurvivesPowerCuts cuts the power of a virtual machine at random moments of an install. What its kernel had not flushed
// to the disk is lost. The same command ends as on the machine that was not disturbed. A reset before that leaves the disk as it was.
func TestVirtualMachineSurvivesPowerCuts(t *testing.T) {
	r := build(t, current, "debian-12")
	n := machineWith(t, r, time.Time{})
	bare := n.state()
	began := time.Now()
	n.must(install)
	took := time.Since(began)
	t.Logf("an undisturbed install took %v", took.Round(time.Second))
	undisturbed := n.settled()
	n.resetsDisk(bare)
	n.losesPowerAtRandom(10, took)
	began = time.Now()
	n.must(install)
	t.Logf("the last run took %v", time.Since(began).Round(time.Second))
	if diff := scenario.Differences(undisturbed, n.settled()); len(diff) > 0 {
		t.Errorf("differs from an undisturbed install:\n%s", strings.Join(diff, "\n"))
	}
	n.comesBackAfterReboot()
	cluster(n)
	n.limitsPod()
}

// keepIPTables keeps the program that lists the firewall's rules: a reset removes the package that the install brought.
const keepIPTables = "mkdir -p " + keptIPTables + "; cp -rL /usr/sbin/xtables-nft-multi /usr/lib/x86_64-linux-gnu/xtables $(ldd /usr/sbin/xtables-nft-multi | grep -o '/lib[^ ]*') " + keptIPTables + "; "

// resetsDisk resets a virtual machine, and compares its disk with an earlier state. What the kernel has loaded is gone after a reboot.
func (n node) resetsDisk(bare []string) {
	n.t.Helper()
	n.must("cp /usr/local/bin/sealift /var/tmp/sealift; " + keepIPTables + resetCommand)
	if left := n.rules(); strings.Contains(left, "\n-A ") {
		n.t.Errorf("rules of the firewall are left:\n%s", left)
	}
	if err := n.Reboot(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
	n.isBare(bare)
}

// losesPowerAtRandom cuts the power of a virtual machine while it installs. took is how long an undisturbed install takes.
func (n node) losesPowerAtRandom(cuts int, took time.Duration) {
	n.t.Helper()
	random := seeded(n.t)
	steps := n.plannedSteps()
	for cut := range cuts {
		if n.finished(steps[len(steps)-1]) {
			if cut < cuts/2 {
				n.t.Errorf("the install was finished after %d power cuts", cut)
			}
			return
		}
		after := time.Duration(random.Float64() * float64(took) / float64(cuts/2))
		n.interrupt(interruption{command: fromUSB, record: "started", after: after, instead: "exit 0"}) // it goes on until the power is cut
		clock := time.Now()
		if cut == 1 { // and the clock's battery is dead: it is right from the next cut on
			clock = time.Unix(0, 0)
		}
		n.losesPowerAndClock(clock)
		out, _ := n.run("/var/tmp/sealift status 2>&1 | head -n 1")
		n.t.Logf("power cut %d, %v after the first step: %s", cut+1, after.Round(time.Second), strings.TrimSpace(out))
	}
}

// comesBackAfterReboot waits until the cluster works again.
func (n node) comesBackAfterReboot() {
	n.t.Helper()
	if err := n.Reboot(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
	began := time.Now()
	n.must(n.awaitsWell())
	n.must(kubectl + "wait --for=condition=Ready pods --all --all-namespaces --field-selector=status.phase=Running --timeout=300s")
	n.t.Logf("the cluster works %v after the boot", time.Since(began).Round(time.Second))
	secondRun(n)
}

// limited is a pod with limits. One of its containers takes more memory than it may have.
const limited = `
apiVersion: v1
kind: Pod
metadata: {name: limited}
spec:
  restartPolicy: Never
  containers:
  - name: shows
    image: docker.io/library/busybox:1.35.0
    imagePullPolicy: IfNotPresent
    command: [cat, /sys/fs/cgroup/cpu.max, /sys/fs/cgroup/memory.max]
    resources: {limits: {cpu: 200m, memory: 64Mi}}
  - name: takes
    image: docker.io/library/busybox:1.35.0
    imagePullPolicy: IfNotPresent
    command: [sh, -c, 'tail /dev/zero']
    resources: {limits: {cpu: 500m, memory: 32Mi}}
`

// limitsPod checks that the kernel limits a pod by control groups of version 2.
func (n node) limitsPod() {
	n.t.Helper()
	if err := n.Exec(n.t.Context(), host.Command{Args: []string{"bash", "-c", kubectl + "apply -f -"}, Stdin: bytes.NewReader([]byte(limited))}); err != nil {
		n.t.Fatal(err)
	}
	n.must(kubectl + "wait --for=jsonpath={.status.phase}=Failed pod/limited --timeout=300s")
	if got, want := n.must(kubectl+"logs limited --container shows"), "20000 100000\n67108864\n"; got != want {
		n.t.Errorf("the limits in a container are %q, want %q", got, want)
	}
	const ends = "get pod limited -o jsonpath='{.status.containerStatuses[?(@.name==\"takes\")].state.terminated.reason}'"
	if got := n.must(kubectl + ends); got != "OOMKilled" {
		n.t.Errorf("the container that took too much memory ended for %q", got)
	}
	n.must(kubectl + "delete pod limited")
}
