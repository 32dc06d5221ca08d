//go:build grid

package airgap_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/sealift/sealift/testgrid/lab/host"
)

// TestEveryReleaseOnEverySystem installs what the other test does not.
func TestEveryReleaseOnEverySystem(t *testing.T) {
	for _, row := range []struct{ kubernetes, system string }{{"1.35.4", "debian-12"}, {"1.35.4", "debian-13"}, {"1.36.3", "debian-13"}} {
		t.Run(row.kubernetes+" on "+row.system, func(t *testing.T) {
			r := build(t, row.kubernetes, row.system)
			n := node{host.ForTest(t, host.Spec{OS: row.system, USB: []string{r.usb}}), t}
			n.must(install)
			cluster(n)
			secondRun(n)
		})
	}
}

// TestKilledAtEveryStep kills the install at each of its steps, one after the other, and lets it go on.
func TestKilledAtEveryStep(t *testing.T) {
	r := build(t, "1.36.3", "debian-12")
	n := node{host.ForTest(t, host.Spec{USB: []string{r.usb}}), t}
	var plan struct{ Steps []struct{ ID string } }
	if err := json.Unmarshal([]byte(n.must("cd /media/usb && cat install.sh | bash -s airgap --plan --output=json 2>/dev/null")), &plan); err != nil {
		t.Fatal(err)
	}
	if len(plan.Steps) < 10 {
		t.Fatalf("a plan of %d steps", len(plan.Steps))
	}
	const started = `grep -q '"step":"%s".*"outcome":"started"' /var/lib/sealift/state/journal.jsonl 2>/dev/null`
	for i, step := range plan.Steps {
		unit := fmt.Sprintf("kill-%d", i)
		n.must(fmt.Sprintf("systemd-run --quiet --unit=%s --property=KillMode=control-group bash -c '%s'", unit, install))
		n.must(fmt.Sprintf("for i in $(seq 3000); do "+started+" && break; sleep 0.02; done; "+started+" || { journalctl -u %s; exit 1; }", step.ID, step.ID, unit))
		n.must(fmt.Sprintf("sleep 0.%d; systemctl kill --signal=KILL %s 2>/dev/null; sleep 0.5", i%10, unit))
	}
	n.must(install)
	cluster(n)
	secondRun(n)
}
