//go:build grid

package airgap_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/scenario"
)

// TestInterruptedInstallMatchesUninterrupted takes one host from an undisturbed install through resets to installs that are
// killed and that run out of disk, and compares where they end.
func TestInterruptedInstallMatchesUninterrupted(t *testing.T) {
	r := build(t, current, "debian-12")
	n := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}
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
			n.must("cp /usr/local/bin/sealift /var/tmp/sealift; /var/tmp/sealift reset --yes")
			n.isBare(bare)
			row.interrupt(n)
			n.must(install)
			if diff := scenario.Differences(undisturbed, n.settled()); len(diff) > 0 {
				t.Errorf("differs from an undisturbed install:\n%s", strings.Join(diff, "\n"))
			}
			secondRun(n)
		})
	}
	cluster(n)
}

// TestStartingControlPlaneIsFinishedByTheNextRun kills an install while the kubelet starts the control plane. The next run waits for that one.
func TestStartingControlPlaneIsFinishedByTheNextRun(t *testing.T) {
	r := build(t, current, "debian-12")
	n := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}
	n.interrupt(interruption{command: fromUSB, step: "kubernetes/init", record: "started", file: "/var/lib/kubelet/config.yaml", after: time.Second, signal: "KILL", group: true})
	made := n.must("stat -c %y /etc/kubernetes/pki/ca.crt")
	out := n.must(install)
	if !strings.Contains(out, "an earlier run has started a control plane") && !strings.Contains(n.must("cat /var/log/sealift/*"), "an earlier run has started a control plane") {
		t.Errorf("the control plane was made again:\n%s", out)
	}
	if after := n.must("stat -c %y /etc/kubernetes/pki/ca.crt"); after != made {
		t.Errorf("the CA is of %s, not of %s", after, made)
	}
	secondRun(n)
	cluster(n)
}

// TestHalfInstalledHostIsReset kills an install in several phases, and resets it each time, with a reset that is also killed. In
// the end an install is as good as on a new host.
func TestHalfInstalledHostIsReset(t *testing.T) {
	r := build(t, current, "debian-12")
	n := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}
	bare := n.state()
	n.must("tar xzf /media/usb/cluster.tar.gz --occurrence=1 -O bin/sealift >/var/tmp/sealift; chmod +x /var/tmp/sealift")
	for i, step := range []string{
		"node/sealift", "node/packages", "kubernetes/pre-init", "containerd/install", "kubernetes/host", "kubernetes/images", "kubernetes/init", "kubernetes/init", "flannel/install", "metrics-server/install",
	} {
		n.interrupt(interruption{command: fromUSB, step: step, record: "started", after: time.Duration(i) * 400 * time.Millisecond, signal: "KILL", group: i%2 == 0})
		if step == "metrics-server/install" {
			killedReset(n)
		}
		n.must(resetCommand + " 2>&1")
		t.Logf("killed in %s, and reset", step)
		n.isBare(bare)
	}
	n.must(install)
	cluster(n)
	killedReset(n)
	n.must(resetCommand)
	n.isBare(bare)
}

// killedReset kills a reset when each of its steps has begun, and when it is finished.
func killedReset(n node) {
	var plan struct{ Steps []struct{ ID string } }
	if err := json.Unmarshal([]byte(n.must("/var/tmp/sealift reset --plan -o json")), &plan); err != nil {
		n.t.Fatal(err)
	}
	for i, step := range plan.Steps {
		for _, record := range []string{"started", "finished"} {
			n.interrupt(interruption{command: resetCommand, step: step.ID, record: record, signal: "KILL", group: i%2 == 0})
		}
	}
}

// isBare checks that a host is as it was before the install, except for files that these tests leave and programs that systemd
// starts for a while.
func (n node) isBare(bare []string) {
	n.t.Helper()
	ofTheTest := []string{" transient", "running systemd-timedated.service"}
	if diff := scenario.Differences(bare, n.state(), append(scenario.Kept(), ofTheTest...)...); len(diff) > 0 {
		n.t.Fatalf("after the reset the host is not what it was:\n%s\n%s", strings.Join(diff, "\n"), n.must("find /var/lib/sealift; tail -n 100 $(ls -t /var/log/sealift/reset-* | head -n 1)"))
	}
}

// killedAtEveryStep kills an install when each of its steps has begun, again when it has done its work but not yet recorded
// that, and again when it has.
func killedAtEveryStep(n node) {
	steps := n.plannedSteps()
	kills := map[string]int{}
	for i, step := range steps {
		for _, record := range []string{"started", "noted", "finished"} {
			if n.finished(step) { // concurrent with another, or before the kill that was meant to precede it
				continue
			}
			n.interrupt(interruption{command: fromUSB, step: step, record: record, signal: "KILL", group: i%2 == 0})
			kills[record]++
		}
	}
	n.t.Logf("%d steps, kills when one was %v", len(steps), kills)
}

// plannedSteps are the IDs of the steps of an install.
func (n node) plannedSteps() (steps []string) {
	n.t.Helper()
	var plan struct{ Steps []struct{ ID string } }
	if err := json.Unmarshal([]byte(n.must("cd /media/usb && cat install.sh | bash -s airgap --plan --output=json 2>/dev/null")), &plan); err != nil {
		n.t.Fatal(err)
	}
	if len(plan.Steps) < 10 {
		n.t.Fatalf("a plan of %d steps", len(plan.Steps))
	}
	for _, step := range plan.Steps {
		steps = append(steps, step.ID)
	}
	return steps
}

// finished reports whether a step is.
func (n node) finished(step string) bool {
	n.t.Helper()
	var records []struct{ Step, Outcome string }
	if err := json.Unmarshal([]byte(n.must("/var/tmp/sealift journal -o json")), &records); err != nil {
		n.t.Fatal(err)
	}
	done := false
	for _, rec := range records {
		done = rec.Step == step && rec.Outcome == "finished" || done && rec.Step != step
	}
	return done
}

// seeded returns random numbers for moments of a test. SEALIFT_TEST_SEED repeats those of an earlier run, which logged its seed.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("SEALIFT_TEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("SEALIFT_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // moments of a test
}

// killedAtRandom kills an install fifteen times, or until all of its steps are finished between two kills.
func killedAtRandom(n node) {
	random := seeded(n.t)
	steps := n.plannedSteps()
	kills := 0
	for kills < 15 && !n.finished(steps[len(steps)-1]) {
		after := time.Duration(random.Float64() * float64(8*time.Second))
		n.interrupt(interruption{command: fromUSB, record: "started", after: after, signal: "KILL", group: kills%2 == 0})
		kills++
	}
	if n.t.Logf("%d kills", kills); kills < 5 {
		n.t.Error("the install was finished after so few")
	}
}
