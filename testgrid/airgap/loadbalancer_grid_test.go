//go:build grid

package airgap_test

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// passes lets a host pass connections on from port 6443 of one of its addresses to the API server of a node.
func (n node) passes(unit, address string, to node) {
	n.t.Helper()
	n.must("systemd-run --quiet --unit=" + unit + " --socket-property=ListenStream=" + address + ":6443 --socket-property=FreeBind=yes /usr/lib/systemd/systemd-socket-proxyd " + to.Address().String() + ":6443")
}

// endpoints returns how the files of a node name the API.
func (n node) endpoints() string {
	n.t.Helper()
	return n.must("grep -hoE 'https://[0-9.:]+' /etc/kubernetes/*.conf | sort -u; grep -s loadBalancerAddress /var/lib/sealift/state/installer.yaml || true")
}

// TestLoadBalancerAddressIsChanged moves a cluster of two control planes and two workers from one load balancer to another. One worker
// is off in the meantime. The change fails on a node, is killed, and resumes from the other control plane; the old load balancer ends
// before the worker returns.
func TestLoadBalancerAddressIsChanged(t *testing.T) {
	r := build(t, current, "debian-12")
	front := node{lab.Host(t, host.Spec{}), t}
	first := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}
	second, worker, late := node{lab.Host(t, host.Spec{}), t}, node{lab.Host(t, host.Spec{}), t}, node{lab.Host(t, host.Spec{}), t}
	old, renewed, nobody := front.another(1), front.another(2), front.another(3)
	front.gets(old)
	front.gets(renewed)
	front.passes("old", old, first)
	first.must(install + " kubernetes.loadBalancerAddress=" + old)
	second.must(first.joinCommand(controlPlane))
	for _, n := range []node{worker, late} {
		n.must(first.joinCommand(""))
	}
	first.hasNodes(4)
	first.hasMembers(2)

	command := "sealift node load-balancer " + renewed
	for address, why := range map[string]string{
		"api_1": "not an address of a load balancer", nobody: "does not lead to an API server of this cluster", second.Address().String(): "is the address of node " + second.Name(),
		"nowhere.example.com": "cannot find nowhere.example.com", renewed: "does not lead to an API server of this cluster", // nothing listens there yet
	} {
		first.refuses("sealift node load-balancer "+address+" --yes", 1, why)
	}
	worker.refuses(command+" --yes", 1, "not a control plane")
	if out := first.must("sealift node load-balancer " + old); !strings.Contains(out, "nothing to do") {
		t.Errorf("the load balancer of now:\n%s", out)
	}
	front.passes("new", renewed, second)
	late.must("ip link set host0 down")
	first.must(kubectl + "wait --for=condition=Ready=Unknown node/" + late.Name() + " --timeout=300s")
	before := worker.endpoints()
	if plan := first.must(command + " --plan"); !strings.Contains(plan, "load-balancer/beside") || !strings.Contains(plan, "node "+late.Name()+" is off") || worker.endpoints() != before {
		t.Errorf("the plan:\n%s", plan)
	}

	// a worker that does not reach it stops the change before anything uses it
	worker.must("ip route add blackhole " + renewed)
	out, code := first.run(command + " --yes 2>&1")
	t.Logf("a worker does not reach it, exit %d:\n%s", code, out)
	if code != 1 || !strings.Contains(out, "node "+worker.Name()) || !strings.Contains(out, "no node uses "+renewed+":6443 yet") || worker.endpoints() != before {
		t.Errorf("a worker does not reach it, exit %d:\n%s\n%s", code, out, worker.endpoints())
	}
	worker.must("ip route del blackhole " + renewed)

	// a worker whose kubelet does not start with it is rolled back; the control planes have moved
	const dropIn = "/etc/systemd/system/kubelet.service.d/99-test.conf"
	worker.must("mkdir -p " + path.Dir(dropIn) + " && printf '[Service]\\nExecStartPre=/bin/sh -c \"! grep -q " + renewed + " /etc/kubernetes/kubelet.conf\"\\n' >" + dropIn + " && systemctl daemon-reload")
	out, code = first.run(command + " --yes 2>&1")
	t.Logf("a kubelet does not start, exit %d:\n%s", code, out)
	if code != 1 || !strings.Contains(out, "that was taken back: this node uses "+old+":6443 again") || !strings.Contains(out, "these nodes use "+renewed+":6443: ") || worker.endpoints() != before {
		t.Errorf("a kubelet does not start, exit %d:\n%s\n%s", code, out, worker.endpoints())
	}
	first.must(kubectl + "wait --for=condition=Ready node/" + worker.Name() + " --timeout=120s")
	worker.must("rm " + dropIn + "; systemctl daemon-reload")

	// killed, and the other control plane resumes
	out, _ = first.interrupt(interruption{command: "exec " + command + " --yes 2>&1", step: "load-balancer/switch", record: "started", signal: "KILL"})
	t.Logf("killed:\n%s", out)
	out = second.must("time " + command + " --yes 2>&1")
	t.Logf("the other control plane:\n%s", out)
	if !strings.Contains(out, "node "+late.Name()+" is off") || !strings.Contains(out, "run '"+"sealift node load-balancer --finish'") {
		t.Errorf("the end says:\n%s", out)
	}
	front.must("systemctl stop old.socket old.service")
	for _, n := range []node{first, second, worker} {
		if out := n.endpoints(); strings.Contains(out, old) || !strings.Contains(out, renewed) {
			t.Errorf("node %s has\n%s", n.Name(), out)
		}
	}
	for _, name := range []string{"kube-system configmap/kubeadm-config", "kube-public configmap/cluster-info", "kube-system configmap/kube-proxy"} {
		if out := first.must(kubectl + "--namespace " + name[:11] + " get " + name[12:] + " -o yaml"); !strings.Contains(out, renewed+":6443") || strings.Contains(out, old+":6443") {
			t.Errorf("%s:\n%s", name, out)
		}
	}
	first.must("sleep 60; " + kubectl + "wait --for=condition=Ready node/" + first.Name() + " node/" + second.Name() + " node/" + worker.Name() + " --timeout=10s")
	runsPod(first, worker, 1)

	// the worker that was off
	first.refuses("sealift node load-balancer --finish --yes", 1, "node "+late.Name()+" is not Ready")
	late.must("ip link set host0 up")
	if out := late.endpoints(); !strings.Contains(out, old) {
		t.Errorf("the worker that was off has\n%s", out)
	}
	t.Log(late.must("time " + command + " --here --yes 2>&1"))
	first.hasNodes(4)
	runsPod(first, late, 2)

	t.Log(first.must("time sealift node load-balancer --finish --yes 2>&1"))
	for _, n := range []node{first, second} {
		shown, err := n.shown(n.Address().String() + ":6443")
		if err != nil {
			t.Fatal(err)
		}
		if shown.VerifyHostname(renewed) != nil || shown.VerifyHostname(old) == nil {
			t.Errorf("node %s shows a certificate for %v", n.Name(), shown.IPAddresses)
		}
	}
	if out, code := first.run(kubectl + "--namespace kube-system get configmap sealift-operations"); code == 0 {
		t.Errorf("the note is left:\n%s", out)
	}
	fresh := node{lab.Host(t, host.Spec{}), t}
	fresh.must(first.joinCommand(""))
	if out := strings.Fields(fresh.endpoints()); !slices.Contains(out, "https://"+renewed+":6443") {
		t.Errorf("a host that joins has %v", out)
	}
	first.hasNodes(5)
	first.must("for i in $(seq 90); do " + kubectl + "get pods -A --no-headers | grep -vE ' (Running|Completed) ' || exit 0; sleep 2; done; exit 1")
	first.pulled()
}
