//go:build grid

package airgap_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/testgrid/scenario"
)

// TestVirtualMachineSurvivesClockJumps installs with a clock that is three days behind, and then sets it: right, and four times wrong and right
// again while the cluster runs.
func TestVirtualMachineSurvivesClockJumps(t *testing.T) {
	r := build(t, current, "debian-12")
	n := machineWith(t, r, time.Now().AddDate(0, 0, -3))
	n.must(install)
	n.clockJumps()
	cluster(n)
}

// clockJumps sets the clock of a node whose cluster is three days old.
func (n node) clockJumps() {
	n.t.Helper()
	n.setsClock(time.Now())
	n.must(n.awaitsWell())
	n.must("sealift snapshot key --out /var/tmp/snapshots.key >/var/tmp/snapshots.pub && for i in 1 2; do " + saves + " || exit 1; done; sealift token create --ttl 48h")
	for _, row := range []struct {
		name  string
		clock func(now time.Time) time.Time
		wait  string // in seconds
	}{
		{"a day behind", func(now time.Time) time.Time { return now.AddDate(0, 0, -1) }, "20"},
		{"a day ahead", func(now time.Time) time.Time { return now.AddDate(0, 0, 1) }, "100"},
		{"14 months ahead", func(now time.Time) time.Time { return now.AddDate(0, 14, 0) }, "20"},
		{"in 1970", func(time.Time) time.Time { return time.Unix(7*24*3600, 0) }, "20"}, // Linux takes no time before that of its boot
	} {
		before := strings.Split(n.must(lasting), "\n")
		n.setsClock(row.clock(time.Now()))
		n.must("sleep " + row.wait) // within 90 seconds, the kubelet gets new tokens for pods
		said := n.must(commands)
		n.t.Logf("%s:\n%s", row.name, said)
		for _, block := range strings.Split(said, "\n$ ")[1:] {
			if line, _, _ := strings.Cut(block, "\n"); !strings.HasSuffix(line, "=> 0") && !namesClock.MatchString(block) {
				n.t.Errorf("%s, a command fails and names neither the clock nor what has ended: %s", row.name, block)
			}
		}
		n.setsClock(time.Now())
		began := time.Now()
		out, code := n.run(n.awaitsWell())
		n.t.Logf("%s: well %v after the clock was right again", row.name, time.Since(began).Round(time.Second))
		if code != 0 {
			n.t.Errorf("%s, the cluster is not well when the clock is right again:\n%s%s", row.name, out, n.must("journalctl --unit sealift-agent | tail -n 20"))
		}
		for _, line := range scenario.Differences(before, strings.Split(n.must(lasting), "\n")) {
			if !strings.HasPrefix(line, "+ ./") { // another snapshot
				n.t.Errorf("%s, changed: %s", row.name, line)
			}
		}
	}
	n.t.Log(n.must("sealift token list; sealift snapshot list; sealift snapshot prune --keep 2 --plan; journalctl --unit sealift-agent | grep clock || :"))
}

// setsClock sets the clock of a machine that runs.
func (n node) setsClock(t time.Time) {
	n.t.Helper()
	n.must("date --utc --set @" + strconv.FormatInt(t.Unix(), 10))
}

// namesClock matches the output of commands that a wrong clock stops, or of a status that names what it broke for a while.
var namesClock = regexp.MustCompile("clock|ended|expired|not ready")

const (
	saves = "sealift snapshot save --key $(cat /var/tmp/snapshots.pub)"

	// lasting is what no clock may change: certificates and kubeconfigs, and the snapshots that exist.
	lasting = "find /etc/kubernetes -name '*.crt' -o -name '*.conf' -type f | sort | xargs sha256sum; cd /var/backups/sealift && find . -type f"

	// commands are what an administrator runs; how each ended comes first.
	commands = `
show() { out=$(timeout 90 "$@" 2>&1); code=$?; echo; echo "$ $* => $code"; tail -n 15 <<<"$out"; }
date --utc
show sealift status
show sealift certs
show sealift token list
show ` + saves + `
show sealift snapshot prune --keep 2 --plan
show sealift upgrade --bundle /media/usb/cluster.tar.gz --plan
`
)

// awaitsWell returns a script that waits until the API takes the token of every pod, and metrics-server answers with its own. The kernel lets
// nobody follow the links to a token that its pod's user owns (fs.protected_symlinks), so the script finds the file itself.
func (n node) awaitsWell() string {
	return `
refused() {
	for token in /var/lib/kubelet/pods/*/volumes/kubernetes.io~projected/*/token; do
		kubectl --kubeconfig /dev/null --server https://` + n.Address().String() + `:6443 --certificate-authority /etc/kubernetes/pki/ca.crt \
			--token "$(cat "$(readlink -f "$token")")" get --raw /version >/dev/null 2>&1 || echo "refused: $token"
	done
}
for i in $(seq 60); do
	left=$(refused)
	[ -z "$left" ] && sealift status >/dev/null && ` + kubectl + `top nodes && exit 0
	sleep 5
done
echo "$left"
sealift status
` + kubectl + `logs --namespace kube-system --selector k8s-app=metrics-server --tail 20
exit 1
`
}
