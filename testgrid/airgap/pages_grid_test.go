//go:build grid

package airgap_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/docexamples"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// changing are words of a page that are others on each day: dates, days, sizes and tokens.
var changing = regexp.MustCompile(`\d{4}-\d\d-\d\d|\b\d{3,4}\b|\b[a-z0-9]{6}\.[a-z0-9]{16}\b`)

// follow runs the commands of a page, in order. prepare does what the page describes before a command, and returns where the command
// runs and with which arguments.
func follow(t *testing.T, page string, prepare func(command string) (node, string)) {
	t.Helper()
	for _, step := range docexamples.Steps(t, filepath.Join(repository, "docs", page)) {
		shown, _, _ := strings.Cut(step.Command, "  #")
		n, command := prepare(strings.TrimPrefix(strings.TrimSpace(shown), "sudo "))
		began := time.Now()
		out := n.must("cd /root && " + command)
		t.Logf("%s: $ %s  [%s]\n%s", n.Name(), command, time.Since(began).Round(100*time.Millisecond), out)
		_, step.Want = prepare(step.Want)
		step.Want = changing.ReplaceAllString(step.Want, "…")
		if step.Want != "" && !step.Shows(out) {
			t.Errorf("%s: $ %s printed\n%s\nand the page has\n%s", page, command, out, step.Want)
		}
	}
}

// TestCertificatesAndHardeningPagesAreFollowed uses a cluster of two nodes.
func TestCertificatesAndHardeningPagesAreFollowed(t *testing.T) {
	r := build(t, current, "debian-12")
	first, worker := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}, node{lab.Host(t, host.Spec{}), t}
	first.must(install)
	worker.must(first.joinCommand(""))
	first.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s")
	names := strings.NewReplacer("host-1", first.Name(), "worker-1", worker.Name())
	prepare := func(command string) (node, string) {
		switch {
		case command == "sealift preflight cis":
			command += " || [ $? = 3 ]" // some checks are not met
		case strings.Contains(command, " rotate-") && !strings.Contains(command, "--plan"):
			command += " --yes"
		}
		return first, names.Replace(command)
	}
	follow(t, "certificates.md", prepare)
	follow(t, "hardening.md", prepare)
	worker.must(strings.Replace(first.joinCommand("--renew "+worker.Name()), "sudo ", "", 1))
	first.must("for i in $(seq 120); do " + kubectl + "get pods -A --no-headers | grep -vE ' (Running|Completed) ' || exit 0; sleep 1; done; exit 1")
	first.must("for i in $(seq 60); do sealift status && exit 0; sleep 2; done; exit 1")
}

// TestSnapshotsPageIsFollowed uses a control plane that loses its data, then another control plane, and then the network. A bare host
// replaces it.
func TestSnapshotsPageIsFollowed(t *testing.T) {
	r := build(t, current, "debian-12")
	first, second := node{lab.Host(t, host.Spec{USB: []string{t.TempDir(), r.usb}}), t}, node{lab.Host(t, host.Spec{}), t}
	bare := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}
	first.must(strings.Replace(install, "/media/usb", "/media/usb2", 1) + " && mount -o remount,bind,rw /media/usb")
	first.must(kubectl + "apply -f - <<'END'\n" + ledger + "END")
	first.must(awaitLedger + " && umask 077 && echo something long and secret >/root/passphrase")
	words := strings.NewReplacer("age1…", "$(cat /root/snapshots.pub)", "s3://backups/cluster-1", "/var/backups/elsewhere",
		"snapshot-….tar.gz.age", "$(ls /root/snapshot-*.tar.gz.age)", "sha256:…", "$(cat /root/ca-hash)")
	follow(t, "snapshots.md", func(command string) (node, string) {
		n, said := first, words.Replace(command)
		switch {
		case strings.HasPrefix(command, "age1"):
			return n, command // it is shown
		case strings.HasPrefix(command, "sealift snapshot key "):
			return n, said + " | tee /root/snapshots.pub"
		case !strings.HasPrefix(command, "sealift restore "):
			return n, said
		case strings.HasSuffix(command, "--bundle /media/usb/cluster.tar.gz --plan"):
			first.must("ip link set host0 down")
			first.handsSnapshot(bare)
		case strings.HasPrefix(command, "sealift restore --plan "):
			first.must("rm -rf /var/lib/etcd")
			first.kills("etcd")
		case strings.HasPrefix(command, "sealift restore --volumes --plan "):
			first.must(kubectl + "scale deployment/ledger --replicas 0 && " + kubectl + "wait --for delete pod --selector app=ledger --timeout 120s")
			first.must("find " + first.volumeOf() + " -mindepth 1 -delete")
		case strings.HasPrefix(command, "sealift restore --survivor --plan"):
			second.must(first.joinCommand(controlPlane))
			second.must("ip link set host0 down")
			first.must("for i in $(seq 60); do " + kubectl + "get --raw /readyz --request-timeout=3s || exit 0; sleep 1; done; exit 1")
		}
		if strings.Contains(command, "--bundle ") {
			n = bare
		}
		if !strings.Contains(command, "--plan") && !strings.Contains(command, "--drill") {
			said += " --yes"
		}
		return n, said
	})
	bare.must(kubectl + "scale deployment/ledger --replicas 1 && " + awaitLedger)
	bare.hasMembers(1)
	bare.hasNodes(1)
	bare.pulled()
}

// handsSnapshot carries the newest snapshot, the key and the hash of the CA to a bare host, which unpacks sealift.
func (n node) handsSnapshot(to node) {
	n.t.Helper()
	newest := strings.TrimSpace(n.must("find /var/backups/sealift -name 'snapshot-*.age' | sort | tail -n 1"))
	n.must("sealift snapshot show " + newest + " --identity /root/snapshots.key | awk '$1 == \"cluster\" {print $2}' >/root/ca-hash")
	for from, name := range map[string]string{newest: "/root/" + filepath.Base(newest), "/root/snapshots.key": "/root/snapshots.key", "/root/ca-hash": "/root/ca-hash"} {
		content := n.must("base64 -w0 " + from)
		if err := to.Exec(n.t.Context(), host.Command{Args: []string{"bash", "-c", "umask 077; base64 -d >" + name}, Stdin: strings.NewReader(content)}); err != nil {
			n.t.Fatal(err)
		}
	}
	to.must("tar xzf /media/usb/cluster.tar.gz --occurrence=1 -O bin/sealift >/usr/local/bin/sealift; chmod +x /usr/local/bin/sealift")
}

// TestAddressesPageIsFollowed gives the only node of a cluster another address in addition to the old one.
func TestAddressesPageIsFollowed(t *testing.T) {
	r := build(t, current, "debian-12")
	n := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}
	n.must(install)
	next := n.another(1)
	n.gets(next)
	names := strings.NewReplacer("host-1", n.Name(), "10.90.0.2", n.Address().String(), "10.90.201.2", next)
	follow(t, "addresses.md", func(command string) (node, string) {
		if strings.HasPrefix(command, "sealift ") && !strings.Contains(command, "--plan") {
			command += " --yes"
		}
		return n, names.Replace(command)
	})
	n.loses(n.Address().String())
	n.knows(n, next)
}
