//go:build grid

package airgap_test

import (
	"testing"
	"time"

	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/scenario"
)

// TestVirtualMachineIsUpgradedAndRestored cuts the power of a virtual machine in the middle of its upgrade. The same command finishes it.
// Then a snapshot of the cluster is restored on another virtual machine.
func TestVirtualMachineIsUpgradedAndRestored(t *testing.T) {
	older, newer := build(t, previous, "debian-12"), build(t, current, "debian-12")
	shell(t, newer.usb, "tar xzf cluster.tar.gz --occurrence=1 upgrade.sh")
	n := node{lab.Host(t, host.Spec{USB: []string{older.usb, newer.usb}, Machine: new(host.MachineSpec)}), t}
	n.must(install)
	n.must("systemd-run --quiet --unit=lead bash -c " + shellword.Quote(upgrade+" yes 2>&1"))
	n.must(scenario.Await("kubernetes/upgrade", "started", 20*time.Minute))
	n.must("sleep 20")
	n.losesPowerAndClock(time.Now())
	began := time.Now()
	t.Log(n.must(upgrade + " yes 2>&1"))
	t.Logf("the upgrade ended %v after the power cut", time.Since(began).Round(time.Second))
	n.runs("v"+current, 1)
	n.must(n.awaitsWell())

	n.makeObjects()
	n.must(saveSnapshot)
	objects := n.manyObjects()
	n.must(kubectl + "create configmap late")
	n.movesTo(node{lab.Host(t, host.Spec{USB: []string{newer.usb}, Machine: new(host.MachineSpec)}), t}, objects)
}
