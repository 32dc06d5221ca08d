//go:build grid

package airgap_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// another is an address for a host that no host of the lab has. Each number makes another one.
func (n node) another(number int) string {
	return fmt.Sprintf("10.90.%d.%d", 200+number, n.Address().As4()[3])
}

// gets gives the host an additional address.
func (n node) gets(address string) {
	n.t.Helper()
	n.must("echo 1 >/proc/sys/net/ipv4/conf/host0/promote_secondaries; ip address add " + address + "/16 dev host0")
}

// loses takes an address from the host.
func (n node) loses(address string) {
	n.t.Helper()
	n.must("ip address del " + address + "/16 dev host0")
}

// readdressed gives the node another address, and returns how long that took.
func (n node) readdressed(address string) time.Duration {
	n.t.Helper()
	began := time.Now()
	out := n.must("sealift node readdress " + address + " --yes")
	took := time.Since(began)
	n.t.Logf("%s has %s after %s:\n%s", n.Name(), address, took.Round(time.Second), out)
	if !strings.Contains(out, "done: node "+n.Name()+" has the address "+address) {
		n.t.Errorf("it ended without saying so:\n%s", out)
	}
	return took
}

// knows checks that the cluster knows a node by one address, and that the node works.
func (n node) knows(of node, address string) {
	n.t.Helper()
	const fields = `{.status.addresses[?(@.type=="InternalIP")].address}`
	if got := n.must(kubectl + "get node " + of.Name() + " --output " + shellword.Quote("jsonpath="+fields)); got != address {
		n.t.Errorf("the cluster knows %s by %q, want %s", of.Name(), got, address)
	}
	n.must("for i in $(seq 90); do " + kubectl + "get pods -A --no-headers | grep -vE ' (Running|Completed) ' || exit 0; sleep 2; done; exit 1")
	n.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=120s")
	n.servesVerified(n.authorities()[0].Leaf, address)
}

// names lists the files of the node that have an address.
func (n node) names(address string) string {
	n.t.Helper()
	return n.must("grep -lwF " + address + " -r /etc/kubernetes/manifests /etc/kubernetes/*.conf /var/lib/kubelet/kubeadm-flags.env /etc/hosts /var/lib/sealift/state/api-servers || true")
}

// TestOnlyNodeChangesAddress gives a single node other addresses: one that it has in addition to the old one, one with which it
// has booted, and an unusable one. A change is killed in each of its steps.
func TestOnlyNodeChangesAddress(t *testing.T) {
	r := build(t, current, "debian-12")
	n := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}
	n.must(install)
	n.makeObjects()
	objects := n.manyObjects()
	old := n.Address().String()
	wrongAddresses(n)

	beside := n.another(1)
	n.gets(beside)
	plan := n.must("sealift node readdress " + beside + " --plan")
	for _, want := range []string{"changes /etc/kubernetes/manifests/etcd.yaml in ", "issues /etc/kubernetes/pki/etcd/peer.crt again", "readdress/keep"} {
		if !strings.Contains(plan, want) {
			t.Errorf("the plan lacks %q:\n%s", want, plan)
		}
	}
	if names := n.names(beside); names != "" {
		t.Errorf("a plan has changed %s", names)
	}
	n.readdressed(beside)
	n.loses(old)
	n.knows(n, beside)
	if names := n.names(old); names != "" {
		t.Errorf("the old address is left in %s", names)
	}
	if out := n.must("sealift node readdress " + beside + " --yes"); !strings.Contains(out, "nothing to do") {
		t.Errorf("a second run:\n%s", out)
	}
	if got := n.manyObjects(); got != objects {
		t.Errorf("the objects are %s, were %s", got, objects)
	}

	moved := n.another(2)
	n.must("sed -i 's/" + old + "/" + moved + "/' /etc/sealift-lab/setup")
	if err := n.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.must("for i in $(seq 20); do ! " + kubectl + "get --raw /readyz --request-timeout=2s || exit 1; sleep 1; done") // it does not recover on its own
	n.readdressed(moved)
	n.knows(n, moved)
	if got := n.manyObjects(); got != objects {
		t.Errorf("the objects are %s, were %s", got, objects)
	}
	t.Run("announced", func(t *testing.T) { moved = announced(node{n.Host, t}, moved) })
	t.Run("does not work", func(t *testing.T) { doesNotWork(node{n.Host, t}, moved) })
	t.Run("killed", func(t *testing.T) { killedReaddress(node{n.Host, t}, moved) })
	if got := n.manyObjects(); got != objects {
		t.Errorf("the objects are %s, were %s", got, objects)
	}
	n.must("for i in $(seq 60); do sealift status && exit 0; sleep 2; done; exit 1")
	n.pulled()
}

// announced announces the next boot's address to the node. Nobody runs a command then.
func announced(n node, was string) (address string) {
	n.t.Helper()
	address = n.another(5)
	n.must("sealift node readdress " + address + " --before && sed -i 's/" + was + "/" + address + "/' /etc/sealift-lab/setup")
	if err := n.Reboot(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
	began := time.Now()
	n.must("for i in $(seq 120); do sealift status | grep -q '" + address + "' && " + kubectl + "get --raw /readyz && exit 0; sleep 2; done; journalctl -u sealift-agent; exit 1")
	n.t.Logf("the node has changed its address by itself %s after the boot", time.Since(began).Round(time.Second))
	n.knows(n, address)
	// the agent still works for a moment
	n.must("for i in $(seq 120); do sealift node readdress " + address + " --yes 2>&1 | grep -q 'nothing to do' && exit 0; sleep 1; done; exit 1")
	return address
}

// wrongAddresses checks that wrong addresses are refused before the first change.
func wrongAddresses(n node) {
	n.t.Helper()
	n.refuses("sealift node readdress host-9 --yes", 2, "not an IP address")
	for address, why := range map[string]string{
		"127.0.0.1": "loopback", "10.96.0.9": "a network of the cluster's pods or Services", "fd00::1": "different families",
		n.another(9): "no interface of this host has " + n.another(9), "169.254.7.7": "not an address that a node can have",
	} {
		n.refuses("sealift node readdress "+address+" --yes", 1, why)
	}
	if out := n.must("sealift journal -o json"); strings.Contains(out, "readdress/") {
		n.t.Errorf("a refusal is in the journal:\n%s", out)
	}
}

// doesNotWork gives the host an address at which no program can listen: the kernel does not treat it as its own.
func doesNotWork(n node, works string) {
	n.t.Helper()
	address := n.another(3)
	n.gets(address)
	n.must("ip route del local " + address + " dev host0 table local")
	began := time.Now()
	out, code := n.run("sealift node readdress " + address + " --yes 2>&1")
	n.t.Logf("taken back after %s, exit %d:\n%s", time.Since(began).Round(time.Second), code, out)
	if code != 1 || !strings.Contains(out, "the new address was taken back: this node has the settings for "+works) {
		n.t.Errorf("exit %d", code)
	}
	n.loses(address)
	n.knows(n, works)
	if names := n.names(address); names != "" {
		n.t.Errorf("the address that does not work is left in %s", names)
	}
}

// killedReaddress kills one change of address at ten moments. Its last two steps end within milliseconds, so a kill there is too
// late.
func killedReaddress(n node, was string) {
	n.t.Helper()
	address := n.another(4)
	n.gets(address)
	for _, moment := range []struct{ step, record string }{
		{"keep", "started"}, {"stop", "started"}, {"stop", "finished"}, {"files", "started"}, {"files", "finished"},
		{"start", "started"}, {"api", "started"}, {"member", "started"}, {"works", "started"}, {"cluster", "started"},
	} {
		n.interrupt(interruption{command: "exec sealift node readdress " + address + " --yes", step: "readdress/" + moment.step, record: moment.record, signal: "KILL"})
		if moment.step != "keep" { // until then nothing is changed, and nothing has to be finished
			n.refuses("sealift status", 1, "sealift node readdress "+address)
		}
	}
	n.readdressed(address)
	n.loses(was)
	n.knows(n, address)
}

// TestClusterNodesChangeAddresses moves the only control plane of a cluster with a worker, then a worker, and then two of three
// control planes: one while it still has the old address, one after it has lost it.
func TestClusterNodesChangeAddresses(t *testing.T) {
	r := build(t, current, "debian-12")
	first := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}
	second, third, worker := node{lab.Host(t, host.Spec{}), t}, node{lab.Host(t, host.Spec{}), t}, node{lab.Host(t, host.Spec{}), t}
	first.must(install)
	worker.must(first.joinCommand(""))

	address := first.another(1)
	first.gets(address)
	first.loses(first.Address().String())
	worker.refuses("sealift node readdress "+address+" --api", 1, "nothing was changed") // nobody answers there yet
	first.readdressed(address)
	worker.refuses("sealift status", 1, "does not answer")
	worker.must("sealift node readdress " + address + " --api")
	first.knows(first, address)
	first.hasNodes(2)
	for _, n := range []node{second, third} {
		n.must(first.joinCommand(controlPlane))
	}
	first.hasMembers(3)

	address = worker.another(1)
	worker.refuses("sealift node readdress "+address+" --yes", 1, "no interface of this host has")
	worker.gets(address)
	worker.readdressed(address)
	worker.loses(worker.Address().String())
	first.knows(worker, address)
	runsPod(first, worker, 1)

	address = second.another(1)
	second.refuses("sealift node readdress "+third.Address().String()+" --yes", 1, "is the address of node "+third.Name())
	second.gets(address)
	second.readdressed(address)
	second.loses(second.Address().String())
	first.knows(second, address)
	first.hasMembers(3)
	second.hasMembers(3)

	address = third.another(1)
	third.gets(address)
	third.loses(third.Address().String())
	third.readdressed(address)
	first.knows(third, address)
	first.hasMembers(3)
	for _, n := range []node{first, second, third, worker} {
		n.must("for i in $(seq 30); do [ \"$(sort /var/lib/sealift/state/api-servers | tr '\\n' ' ')\" = \"$(printf '%s:6443\\n' " +
			first.another(1) + " " + second.another(1) + " " + third.another(1) + " | sort | tr '\\n' ' ')\" ] && exit 0; sleep 1; done; cat /var/lib/sealift/state/api-servers; exit 1")
	}
	runsPod(first, worker, 2)
	first.hasNodes(4)
	first.pulled()
}
