package airgap_test

import (
	"fmt"
	"strings"
	"time"
)

// fromUSB is install, without a process before the one that has the installer as its child.
const fromUSB = "cd /media/usb && exec bash -s airgap <install.sh"

// interruption is what befalls an install, or a reset: when, and what.
type interruption struct {
	command string        // becomes sealift, or a shell whose child it is
	step    string        // "" for any
	record  string        // of the step, for which is waited: started, finished, or noted: what it changed is on the disk, and it is not finished
	file    string        // for which is waited then, "" for none
	after   time.Duration // for which is waited then
	signal  string        // to sealift alone; nothing waits for an end after STOP
	instead string        // is run in place of a signal
	group   bool          // what sealift started is killed, too, as the end of a service does
}

// interrupting waits for a record in the journal, from the first moment that it can be read, and sends the signal.
const interrupting = `
unit=interrupted-$RANDOM$RANDOM journal=/var/lib/sealift/state/journal.jsonl changes=/var/lib/sealift/state/before/changes.json
exec {pause}<> <(:)
renice -n -20 $$ >/dev/null # some of the moments are short
seen=0
[ ! -e $journal ] || seen=$(wc -l <$journal)
systemd-run --quiet --unit=$unit --property=KillMode=process --property=StandardOutput=truncate:/run/$unit --property=StandardError=inherit bash -c "$command"
main=$(systemctl show --value --property=MainPID $unit)
has() {
	local line lines
	[ -r $journal ] && mapfile -t -s $seen lines <$journal || return
	for line in "${lines[@]}"; do [[ $line != *"\"step\":\"$step"*"\"outcome\":\"$1\""* ]] || return 0; done
	return 1
}
noted() {
	[ -e /run/$unit.began ] || { has started && touch /run/$unit.began; } || return
	[ $changes -nt /run/$unit.began ] || has finished
}
SECONDS=0
while if [ $record = noted ]; then ! noted; else ! has $record; fi; do
	[ -e /proc/$main ] && [ $SECONDS -lt 420 ] || { cat /run/$unit; echo "no step ${step%\"} was $record"; exit 99; }
	read -rt 0.002 -u $pause
done
until [ -z "$file" ] || [ -e "$file" ] || [ ! -e /proc/$main ]; do read -rt 0.05 -u $pause; done
sleep $after
if [ -n "$instead" ]; then
	eval "$instead"
else
	installer=$main
	[ ! -e /proc/$main ] || [ "$(</proc/$main/comm)" = sealift ] || read -r installer _ </proc/$main/task/$main/children
	kill -$signal $installer
fi
[ "$signal" != STOP ] || exit 0
[ -z "$group" ] || systemctl kill --signal=KILL $unit
SECONDS=0
while [ -e /proc/$main ]; do
	[ $SECONDS -lt 420 ] || { cat /run/$unit; echo "SIG$signal $instead did not end it in 7 minutes"; exit 98; }
	read -rt 0.02 -u $pause
done
code=$(systemctl show --value --property=ExecMainStatus $unit)
cat /run/$unit
rm -f /run/$unit /run/$unit.began
exit $code
`

// interrupt runs the command, interrupts it, and returns what it said and its exit code when it has ended.
func (n node) interrupt(i interruption) (output string, code int) {
	n.t.Helper()
	step, group := "", ""
	if i.step != "" {
		step = i.step + `"`
	}
	if i.group {
		group = "yes"
	}
	output, code = n.run(fmt.Sprintf("command=%s step=%s record=%s file=%s after=%.2f signal=%s instead=%s group=%s",
		quoted(i.command), quoted(step), i.record, i.file, i.after.Seconds(), i.signal, quoted(i.instead), group) + interrupting)
	if code == 98 || code == 99 {
		n.t.Fatalf("%s", output)
	}
	return output, code
}

// interrupted ends an install in its middle, by signals that ask it to end, and by one that does not ask.
func interrupted(n node) {
	for _, row := range []struct{ signal, step, told string }{
		{"INT", "node/packages", "interrupt signal received"},
		{"TERM", "containerd/install", "terminated signal received"},
	} {
		out, code := n.interrupt(interruption{command: fromUSB, step: row.step, record: "started", after: 300 * time.Millisecond, signal: row.signal})
		for _, want := range []string{"interrupted: ", "step " + row.step + ": " + row.told, "go on with:\n  cd /media/usb && cat install.sh | sudo bash -s airgap\n"} {
			if code != 1 || !strings.Contains(out, want) {
				n.t.Errorf("SIG%s in step %s: exit %d, want 1 and %q in\n%s", row.signal, row.step, code, want, out)
			}
		}
		n.refuses("sealift status", 1, "failure  step "+row.step)
		if out := n.must("sealift journal"); !strings.Contains(out, "step "+row.step+" failed: "+row.told) {
			n.t.Errorf("journal after SIG%s:\n%s", row.signal, out)
		}
	}
	n.must("! ls -d /var/lib/sealift/.install-*")
	n.interrupt(interruption{command: fromUSB, step: "kubernetes/init", record: "started", file: "/etc/kubernetes/manifests/etcd.yaml", signal: "KILL", group: true})
	n.refuses("sealift status", 1, "open     step kubernetes/init was begun")
}
