//go:build grid

package airgap_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/testgrid/lab/host"
)

// TestInterruptedInstallEndsAsAnUndisturbedOne takes one host from an undisturbed install through resets to installs that are
// killed and that run out of disk, and compares where they end.
func TestInterruptedInstallEndsAsAnUndisturbedOne(t *testing.T) {
	r := build(t, "1.36.3", "debian-12")
	n := node{host.ForTest(t, host.Spec{USB: []string{r.usb}}), t}
	bare := n.state()
	n.must(install)
	undisturbed := n.settled()
	for _, row := range []struct {
		name      string
		interrupt func(node)
	}{
		{"killed at every step", killedAtEveryStep},
		{"killed at 15 random moments", killedAtRandom},
		{"out of disk", outOfDisk},
	} {
		t.Run(row.name, func(t *testing.T) {
			n := node{n.Host, t}
			n.must("if command -v sealift; then sealift reset --yes; fi")
			if diff := differences(bare, n.state(), append(notTakenBack(), notOfTheInstall()...)...); len(diff) > 0 {
				t.Fatalf("after the reset the host is not what it was:\n%s", strings.Join(diff, "\n"))
			}
			row.interrupt(n)
			n.must(install)
			if diff := differences(undisturbed, n.settled()); len(diff) > 0 {
				t.Errorf("differs from an undisturbed install:\n%s", strings.Join(diff, "\n"))
			}
			secondRun(n)
		})
	}
	cluster(n)
}

// TestHalfInstalledHostIsReset kills an install in several phases, and takes back what there is of it.
func TestHalfInstalledHostIsReset(t *testing.T) {
	r := build(t, "1.36.3", "debian-12")
	n := node{host.ForTest(t, host.Spec{USB: []string{r.usb}}), t}
	bare := n.state()
	for i, step := range []string{"node/sealift", "node/packages", "kubernetes/pre-init", "containerd/install", "kubernetes/images", "kubernetes/init", "flannel/install"} {
		n.killAt(fmt.Sprintf("half-%d", i), step, time.Duration(i)*200*time.Millisecond)
		reset := "tar xzf cluster.tar.gz --occurrence=1 -O bin/sealift >/tmp/sealift && chmod +x /tmp/sealift && /tmp/sealift reset --yes 2>&1"
		out := n.must("cd /media/usb && " + reset)
		if diff := differences(bare, n.state(), append(notTakenBack(), notOfTheInstall()...)...); len(diff) > 0 {
			t.Errorf("killed at %s, the host is not what it was:\n%s\nreset said:\n%s", step, strings.Join(diff, "\n"), out)
		}
	}
}

// notOfTheInstall is what these tests, and programs that systemd starts for a while, leave on the host.
func notOfTheInstall() []string {
	return []string{" transient", "file drwxr-x--- root root /root/.kube ", "running systemd-timedated.service"}
}

const started = `grep -q '"step":"%s".*"outcome":"started"' /var/lib/sealift/state/journal.jsonl 2>/dev/null`

// killAt starts an install and kills it some time after a step began.
func (n node) killAt(unit, step string, after time.Duration) {
	n.t.Helper()
	began := fmt.Sprintf(started, step)
	n.must(fmt.Sprintf("systemd-run --quiet --unit=%s --property=KillMode=control-group bash -c '%s'", unit, install))
	n.must(fmt.Sprintf("for i in $(seq 6000); do %s && break; sleep 0.02; done; %s || { journalctl -u %s; exit 1; }", began, began, unit))
	n.must(fmt.Sprintf("sleep %.2f; systemctl kill --signal=KILL %s 2>/dev/null; sleep 0.5", after.Seconds(), unit))
}

func killedAtEveryStep(n node) {
	var plan struct{ Steps []struct{ ID string } }
	if err := json.Unmarshal([]byte(n.must("cd /media/usb && cat install.sh | bash -s airgap --plan --output=json 2>/dev/null")), &plan); err != nil {
		n.t.Fatal(err)
	}
	if len(plan.Steps) < 10 {
		n.t.Fatalf("a plan of %d steps", len(plan.Steps))
	}
	for i, step := range plan.Steps {
		n.killAt(fmt.Sprintf("kill-%d", i), step.ID, time.Duration(i%10)*100*time.Millisecond)
	}
}

func killedAtRandom(n node) {
	seed := uint64(time.Now().UnixNano())
	n.t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 15 {
		unit := fmt.Sprintf("random-%d", i)
		n.must(fmt.Sprintf("systemd-run --quiet --unit=%s --property=KillMode=control-group bash -c '%s'", unit, install))
		n.must(fmt.Sprintf("sleep %.2f; systemctl kill --signal=KILL %s 2>/dev/null; sleep 0.5", 0.3+random.Float64()*11, unit))
	}
}

// outOfDisk lets the disks of the install root and of containerd fill up while the install runs, and frees them.
func outOfDisk(n node) {
	n.must("mkdir -p /var/lib/sealift && mount -t tmpfs -o size=700m none /var/lib/sealift && mount -t tmpfs -o size=6g none /var/lib/containerd")
	for _, row := range []struct{ step, disk string }{
		{"kubernetes/files", "/var/lib/sealift"}, {"kubernetes/images", "/var/lib/containerd"},
	} {
		filler := fmt.Sprintf("until "+started+"; do sleep 0.02; done; cat /dev/zero >%s/fill", row.step, row.disk)
		out, code := n.run("(" + filler + ") 2>/dev/null & " + install + " 2>&1; code=$?; kill $! 2>/dev/null; wait; exit $code")
		if code != 1 || !strings.Contains(out, "no space left") || !strings.Contains(out, row.disk+" has ") {
			n.t.Errorf("%s full in step %s: exit %d\n%s", row.disk, row.step, code, out)
		}
		n.must("rm -f " + row.disk + "/fill; sealift status -o json | grep -q '\"state\": \"failed\"'")
	}
}
