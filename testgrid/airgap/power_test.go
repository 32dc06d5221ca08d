//go:build grid

package airgap_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/isolation"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/scenario"
)

// TestInstallSurvivesPowerLoss cuts the power of a host repeatedly while it installs: unsynced data is lost, and the host boots
// with the rest.
func TestInstallSurvivesPowerLoss(t *testing.T) {
	r := build(t, current, "debian-12")
	d := isolation.NewDisk(t, 24<<30)
	n := node{lab.Host(t, host.Spec{USB: []string{r.usb}, Disk: d.Path()}), t}
	bare := n.state()
	n.must(install)
	undisturbed := n.settled()
	n.must("cp /usr/local/bin/sealift /var/tmp/sealift; /var/tmp/sealift reset --yes")
	n.isBare(bare)
	n.must("sync")
	for _, row := range []interruption{
		{step: "kubernetes/files", record: "finished"},
		{step: "node/packages", record: "started", after: 1500 * time.Millisecond},
		{step: "node/packages", record: "finished"},
		{step: "kubernetes/pre-init", record: "finished"},
		{step: "containerd/install", record: "started", after: time.Second},
		{step: "containerd/install", record: "finished"},
		{step: "kubernetes/images", record: "started", after: 2 * time.Second},
		{step: "kubernetes/images", record: "finished"},
		{step: "kubernetes/init", record: "started", file: "/etc/kubernetes/manifests/etcd.yaml"},
		{step: "kubernetes/init", record: "finished"},
		{step: "flannel/install", record: "finished"},
		{step: "metrics-server/install", record: "started", after: 4 * time.Second},
	} {
		if n.finished(row.step) { // before the power went, the last time
			continue
		}
		row.command = fromUSB
		n.losesPower(d, row)
	}
	n.must(install)
	if diff := scenario.Differences(undisturbed, n.settled()); len(diff) > 0 {
		t.Errorf("differs from an undisturbed install:\n%s", strings.Join(diff, "\n"))
	}
	secondRun(n)
	cluster(n)
	n.losesPower(d, interruption{command: resetCommand, step: "reset/packages", record: "started", after: 300 * time.Millisecond})
	n.must(resetCommand)
	n.isBare(bare)
}

// losesPower cuts the power of the host at a moment of a command.
func (n node) losesPower(d *isolation.Disk, i interruption) {
	n.t.Helper()
	i.signal = "STOP"
	n.interrupt(i)
	d.CutPower()
	if err := n.PowerCycle(n.t.Context(), d.Restore); err != nil {
		n.t.Fatal(err)
	}
	out, _ := n.run("/var/tmp/sealift status 2>&1 | head -n 1")
	n.t.Logf("power lost after step %s was %s: %s", i.step, i.record, strings.TrimSpace(out))
}
