package airgap_test

import (
	"regexp"
	"strings"
	"time"

	"github.com/sealift/sealift/testgrid/scenario"
)

// fromUSB is install, without a process between it and the installer.
const fromUSB = "cd /media/usb && exec bash -s airgap <install.sh"

// interruption is an event during an install or a reset: when, and what.
type interruption struct {
	command string        // becomes sealift, or a shell whose child it is
	step    string        // "" for any
	record  string        // event of the step to wait for: started, finished, or noted: its changes are on disk, and it is not finished
	file    string        // for which is waited then, "" for none
	after   time.Duration // for which is waited then
	signal  string        // only to sealift; nothing waits for an end after STOP
	instead string        // is run instead of a signal
	group   bool          // sealift's children are killed, too, as when a service ends
}

// interrupt runs the command, interrupts it, and returns its output and its exit code when it has ended.
func (n node) interrupt(i interruption) (output string, code int) {
	n.t.Helper()
	output, code = n.run(scenario.Interruption{Command: i.command, Step: i.step, Record: i.record, File: i.file, After: i.after, Signal: i.signal, Instead: i.instead, Group: i.group}.Script())
	if code == 98 || code == 99 {
		n.t.Fatalf("%s", output)
	}
	return output, code
}

// interrupted ends an install in its middle, by signals that ask it to end, and by one that does not ask.
func interrupted(n node) {
	for _, row := range []struct{ signal, step, printed string }{
		{"INT", "node/packages", "interrupt signal received"},
		{"TERM", "containerd/install", "terminated signal received"},
	} {
		out, code := n.interrupt(interruption{command: fromUSB, step: row.step, record: "started", after: 300 * time.Millisecond, signal: row.signal})
		for _, want := range []string{"interrupted: ", "step " + row.step + ": " + row.printed, "go on with:\n  cd /media/usb && cat install.sh | sudo bash -s airgap\n"} {
			if code != 1 || !strings.Contains(out, want) {
				n.t.Errorf("SIG%s in step %s: exit %d, want 1 and %q in\n%s", row.signal, row.step, code, want, out)
			}
		}
		n.refuses("sealift status", 1, "failure  step ")
		// files are extracted beside host packages: which of the two steps ends last is open
		out = n.must("sealift journal")
		if !regexp.MustCompile(` `+row.step+` +failed `).MatchString(out) || !strings.Contains(out, " failed: "+row.printed) {
			n.t.Errorf("journal after SIG%s:\n%s", row.signal, out)
		}
	}
	n.must("! ls -d /var/lib/sealift/.install-*")
	n.interrupt(interruption{command: fromUSB, step: "kubernetes/init", record: "started", file: "/etc/kubernetes/manifests/etcd.yaml", signal: "KILL", group: true})
	n.refuses("sealift status", 1, "open     step kubernetes/init was begun")
}
