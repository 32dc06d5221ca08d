package airgap_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// answer is the output of sealift preflight for one check.
type answer struct{ Check, Status, Message, Hint string }

// answers runs a script in the host that prints a report, and checks its exit code.
func (n node) answers(script string, code int) []answer {
	n.t.Helper()
	out, got := n.run(script)
	if got != code {
		n.t.Fatalf("%s: exit %d, want %d\n%s", script, got, code, out)
	}
	var report struct{ Results []answer }
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		n.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return report.Results
}

// wants looks for an answer that is known except for its numbers.
func wants(t *testing.T, answers []answer, check, status, message, hint string) {
	t.Helper()
	for _, a := range answers {
		if a.Check == check && a.Status == status && strings.Contains(a.Message, message) && strings.Contains(a.Hint, hint) {
			return
		}
	}
	t.Errorf("no answer %s: %s: …%s… (%s) in\n%+v", status, check, message, hint, answers)
}

const (
	unpackSealift = "mkdir -p /tmp/tool && tar xzf /media/usb/cluster.tar.gz --occurrence=1 -C /tmp/tool bin/sealift"
	look          = "/tmp/tool/bin/sealift preflight --bundle /media/usb/cluster.tar.gz -o json 2>/dev/null"
	// everything that an install might touch, and the state of the host outside of files
	inventory = "dpkg-query -W; find / -xdev -not -path '/proc/*' -not -path '/run/*' -not -path '/tmp/*' -not -path '/var/log/*' -printf '%p %m %s %l\n' | sort; " +
		"systemctl list-unit-files --no-legend; ip link; cat /proc/mounts | sort"
)

func TestPreflightNamesFaultAndRemedy(t *testing.T) {
	t.Parallel()
	r := build(t, current, "debian-12")
	n := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}
	n.must(unpackSealift)

	good := n.answers(look, 0)
	wants(t, good, "cpu", "pass", "", "")
	wants(t, good, "disk", "pass", "needed", "")
	wants(t, good, "ports", "pass", "free: 6443", "")
	wants(t, good, "containerd: Disk space for images", "pass", "room", "")
	wants(t, good, "flannel: Port of the pod network", "pass", "8472 is free", "")

	// One processor, a disk that is too small, another program on the API server's port, and swap.
	swapOn(n)
	defer func() { _, _ = n.run("swapoff " + swapFile) }()
	n.must("mount -t tmpfs -o size=64m small /var/lib/containerd")
	n.must("systemd-run --quiet --unit=squatter systemd-socket-activate -l 6443 /bin/true; " +
		"for i in $(seq 3000); do ss -ltn | grep -q :6443 && exit 0; sleep 0.1; done; exit 1")
	before := n.must(inventory)
	bad := n.answers("taskset -c 0 "+look, 3)
	wants(t, bad, "cpu", "fail", "1 CPU; a control plane needs at least 2", "add CPUs")
	wants(t, bad, "disk", "fail", "/var/lib/containerd: ", "mount a larger disk there")
	wants(t, bad, "ports", "fail", "port 6443 is in use", "ss -ltnp 'sport = :6443' shows it")
	wants(t, bad, "swap", "warn", "swap is on", "swapoff -a")
	wants(t, bad, "containerd: Disk space for images", "fail", "less than 5Gi free", "")
	if after := n.must(inventory); after != before {
		t.Errorf("looking changed the host:\nbefore\n%s\nafter\n%s", before, after)
	}

	n.answers("taskset -c 0 "+strings.Replace(look, "preflight", "preflight --host-preflight-ignore", 1), 0)
	n.must("systemctl stop squatter; umount /var/lib/containerd")
	n.answers(strings.Replace(look, "preflight", "preflight --enforce-warnings", 1), 3) // cgroup v1 or a clock that nothing keeps
}

// swapFile is where the host has a file system of the machine's, on which swap may be.
const swapFile = "/var/lib/containerd/swap"

// swapOn switches swap on for a moment. It is the machine's, not only the host's; no test depends on it being off.
func swapOn(n node) {
	n.must("dd if=/dev/zero of=" + swapFile + " bs=1M count=16 status=none && chmod 600 " + swapFile + " && mkswap -q " + swapFile + " && swapon " + swapFile)
}
