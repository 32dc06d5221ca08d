//go:build grid

package airgap_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

const (
	// dnsClient is a pod of a node that asks for a name of the cluster every 200 ms, with a second for the answer, and writes each failure.
	dnsClient = kubectl + `run asks --image docker.io/library/busybox:1.35.0 --restart Never --overrides '{"spec":{"nodeName":"%s"}}' -- sh -c 'while :; do timeout 1 nslookup kubernetes.default.svc.cluster.local >/dev/null 2>&1 || echo failed at $(date); echo asked; sleep 0.2; done'`

	nodeCaches = "--namespace kube-system daemonset/node-local-dns "
	coreDNS    = "--namespace kube-system deployment/coredns "
)

// TestDNSAnswersWithoutCoreDNS uses a pod that asks for names while CoreDNS is replaced, and while it is away for longer than answers are
// valid. The node of a cache that is deleted asks CoreDNS meanwhile. A worker that leaves, and the removal, leave no interface and no rule.
func TestDNSAnswersWithoutCoreDNS(t *testing.T) {
	r, without := buildWith(t, "node-local-dns"), build(t, current, "debian-12")
	first, worker := node{lab.Host(t, host.Spec{USB: []string{r.usb, without.usb}}), t}, node{lab.Host(t, host.Spec{}), t}
	bare := worker.state()
	for options, refused := range map[string]string{
		"node-local-dns: {address: 169.254.20.300}": "nodeLocalDns.address must be an IPv4 address",
		"node-local-dns: {serveStale: long}":        "nodeLocalDns.serveStale must be a duration",
	} {
		first.writesSite(options)
		first.refuses(install+site, 3, refused)
	}
	first.must(install)
	worker.must(first.joinCommand(""))
	first.must(kubectl + "wait nodes --all --for condition=Ready --timeout 180s && " + kubectl + "rollout status --timeout 180s " + nodeCaches)
	first.must(fmt.Sprintf(dnsClient, first.Name()) + " && " + kubectl + "wait pod/asks --for condition=Ready --timeout 120s")
	first.within(60, kubectl+"logs asks | grep asked")

	t.Logf("CoreDNS was replaced: %s", first.unanswered(func() {
		first.must(kubectl + "rollout restart " + coreDNS + "&& " + kubectl + "rollout status --timeout 180s " + coreDNS)
	}))
	t.Logf("the caches were replaced: %s", first.unanswered(func() {
		first.must(kubectl + "rollout restart " + nodeCaches + "&& " + kubectl + "rollout status --timeout 180s " + nodeCaches)
	}))
	first.pulled()
	if out := first.must(install); !strings.Contains(out, "nothing to do") {
		t.Errorf("second run:\n%s", out)
	}
	workerLeaves(first, worker, bare)
	away := first.unanswered(func() { first.followsAddOn("addons/node-local-dns.md", "") })
	t.Logf("the page was followed, to the removal: %s", away)
	first.must(kubectl + "delete pod asks --now")
	first.leaves("node-local-dns\\|kube-dns-upstream")
	for _, n := range []node{first, worker} {
		n.within(60, "! ip link show dev nodelocaldns")
		if state := strings.Join(n.state(), "\n"); strings.Contains(state, "NodeLocal DNS Cache") {
			t.Errorf("%s has rules of the cache:\n%s", n.Name(), state)
		}
	}
}

// unanswered does something, and returns how many questions of the pod failed meanwhile. A tenth of them may.
func (n node) unanswered(do func()) string {
	n.t.Helper()
	count := func(word string) int {
		number, err := strconv.Atoi(strings.TrimSpace(n.must(kubectl + "logs asks | grep -c '^" + word + "' || true")))
		if err != nil {
			n.t.Fatal(err)
		}
		return number
	}
	asked, failed := count("asked"), count("failed")
	do()
	asked, failed = count("asked")-asked, count("failed")-failed
	if asked == 0 || failed*10 > asked {
		n.t.Errorf("%d of %d questions failed", failed, asked)
	}
	return strconv.Itoa(failed) + " of " + strconv.Itoa(asked) + " questions failed"
}
