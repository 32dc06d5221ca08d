//go:build grid

package airgap_test

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/scenario"
)

// TestClusterIsInstalledFromStore makes a cluster out of the packages on a USB disk, without a bundle. The first install is killed.
// Another host joins, which has nothing but the printed command.
func TestClusterIsInstalledFromStore(t *testing.T) {
	r := build(t, current, "debian-12")
	first := node{lab.Host(t, host.Spec{USB: []string{r.dir()}}), t}
	worker := node{lab.Host(t, host.Spec{}), t}
	const fromStore = "cd /media/usb && ./sealift install -f installer.yaml --store packages"
	before := first.state()
	if out := first.must(fromStore + " --plan"); !strings.Contains(out, "kubernetes/init") {
		t.Errorf("the plan:\n%s", out)
	}
	if diff := scenario.Differences(before, first.state(), scenario.Kept()...); len(diff) > 0 {
		t.Errorf("the plan changed the host:\n%s", strings.Join(diff, "\n"))
	}
	first.must("systemd-run --quiet --unit=first --property=KillMode=control-group bash -c " + shellword.Quote(fromStore+" --yes"))
	first.must("while systemctl is-active --quiet first; do [ ! -e /etc/kubernetes/admin.conf ] || exit 0; sleep 0.2; done; journalctl -u first; exit 1")
	first.must("systemctl kill --signal=KILL first; sleep 1; sealift journal")
	out := first.must(fromStore + " --yes 2>&1")
	if !strings.Contains(out, "done: ") {
		t.Errorf("the install ended without saying so:\n%s", out)
	}
	cluster(first)
	if again := first.must(fromStore + " --yes"); !strings.Contains(again, "nothing to do") {
		t.Errorf("second run:\n%s", again)
	}
	if joined := worker.must(workerCommand(t, out)); !strings.Contains(joined, "done: ") {
		t.Errorf("the join ended without saying so:\n%s", joined)
	}
	first.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s")
}
