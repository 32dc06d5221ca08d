//go:build grid

package airgap_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// TestUpgradeFromServerTransfersOnlyChanges upgrades two nodes from a server before a bucket. The command is killed twice on the way.
// The server sends what the cluster lacks, once for all nodes.
func TestUpgradeFromServerTransfersOnlyChanges(t *testing.T) {
	older, r := build(t, previous, "debian-12"), build(t, current, "debian-12")
	tools := r.tools(t)
	shell(t, r.dir(), "ln -f "+filepath.Join(older.packages, "kubernetes-"+previous+"*.tar.gz")+" packages/")
	depot := node{lab.Host(t, host.Spec{USB: []string{r.dir(), tools}}), t}
	first := node{lab.Host(t, host.Spec{USB: []string{tools}}), t}
	worker := node{lab.Host(t, host.Spec{USB: []string{tools}}), t}
	for _, n := range []node{depot, first, worker} {
		n.must("dpkg -i /media/usb*/*.deb 2>&1")
	}
	base := depot.serves()
	from := strings.TrimSuffix(strings.TrimPrefix(depot.composed(base, addOns(previous)), "curl -fsSL "), " | sudo bash")
	to := strings.TrimSuffix(strings.TrimPrefix(depot.composed(base, addOns(current)), "curl -fsSL "), " | sudo bash")
	first.must("curl -fsSL " + from + " | sudo bash")
	worker.must(first.joinCommand("--from " + from))
	first.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s")

	var plan struct{ Plan struct{ Bytes int64 } }
	if err := json.Unmarshal([]byte(first.must("sealift upgrade --from "+to+" --plan -o json 2>/dev/null")), &plan); err != nil {
		t.Fatal(err)
	}
	before := depot.sent()
	command := "curl -fsSL " + to + "/upgrade.sh | sudo bash -s yes"
	for _, after := range []time.Duration{4 * time.Second, 9 * time.Second} {
		out, _ := first.run("systemd-run --quiet --wait --pipe --collect --property=RuntimeMaxSec=" + after.String() + " --property=KillMode=control-group --property=TimeoutStopSec=0 --property=KillSignal=SIGKILL bash -c " + shellword.Quote(command) + " 2>&1")
		t.Logf("killed after %s, %d bytes sent so far:\n%s", after, depot.sent()-before, out)
	}
	t.Log(first.must(command + " 2>&1"))
	first.runs("v"+current, 2)
	first.pulled()
	sent := depot.sent() - before
	t.Logf("%d bytes sent, %d changed: %.3f", sent, plan.Plan.Bytes, float64(sent)/float64(plan.Plan.Bytes))
	if sent > plan.Plan.Bytes+plan.Plan.Bytes/100 {
		t.Errorf("the server sent %d bytes of %d that changed", sent, plan.Plan.Bytes)
	}
}
