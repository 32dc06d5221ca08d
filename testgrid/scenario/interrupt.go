// Package scenario has failures to inject on a host while software installs itself there, as scripts that run on the host, and
// the comparison of a host with its earlier state. The test grid and the project's own tests use it.
package scenario

import (
	"fmt"
	"time"

	"github.com/sealift/sealift/internal/shellword"
)

// Interruption is an event during a command that installs, joins or resets: when, and what.
type Interruption struct {
	Command string        // becomes sealift, or a shell whose child it is
	Step    string        // ID of a step; "" for any
	Record  string        // event of the step to wait for: started, finished, or noted: its changes are on disk, and it is not finished
	File    string        // to wait for then; "" for none
	After   time.Duration // to wait then
	Signal  string        // only to sealift; nothing waits for an end after STOP
	Instead string        // a script that runs instead of a signal
	Group   bool          // kill sealift's children, too, as when a service ends
}

// The exit codes of an interruption's script that do not belong to the command.
const (
	DidNotEnd   = 98 // the command continued after the interruption
	NotRecorded = 99 // the step was not recorded
)

// Script returns the script that runs the command, interrupts it, and ends as the command does. It prints the command's output.
func (i Interruption) Script() string {
	step, group := "", ""
	if i.Step != "" {
		step = i.Step + `"`
	}
	if i.Group {
		group = "yes"
	}
	return fmt.Sprintf("command=%s step=%s record=%s file=%s after=%.2f signal=%s instead=%s group=%s",
		shellword.Quote(i.Command), shellword.Quote(step), shellword.Quote(i.Record), shellword.Quote(i.File), i.After.Seconds(), shellword.Quote(i.Signal), shellword.Quote(i.Instead), group) + interrupting
}

// Await returns a script that ends when a step of the journal has a new record. It exits with NotRecorded if that takes longer
// than most.
func Await(step, record string, most time.Duration) string {
	return fmt.Sprintf("step=%s record=%s most=%d", shellword.Quote(step+`"`), shellword.Quote(record), int(most.Seconds())) + awaiting
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

// awaiting reads the journal's new lines.
const awaiting = `
journal=/var/lib/sealift/state/journal.jsonl seen=0 SECONDS=0
exec {pause}<> <(:)
[ ! -e $journal ] || seen=$(wc -l <$journal)
while [ $SECONDS -lt $most ]; do
	lines=()
	[ ! -r $journal ] || mapfile -t -s $seen lines <$journal
	for line in "${lines[@]}"; do [[ $line != *"\"step\":\"$step"*"\"outcome\":\"$record\""* ]] || exit 0; done
	read -rt 0.02 -u $pause
done
exit 99
`
