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

// upgrade is the command that upgrades the cluster to the bundle of the second disk.
const upgrade = "cd /media/usb2 && cat upgrade.sh | bash -s airgap"

// outdated makes a cluster of a control plane and a worker with the Kubernetes before the current one. The second disk of the
// control plane has the bundle with the current one.
func outdated(t *testing.T, firstSpec, workerSpec host.Spec) (first, worker node) {
	t.Helper()
	older, newer := build(t, previous, "debian-12"), build(t, current, "debian-12")
	shell(t, newer.usb, "tar xzf cluster.tar.gz --occurrence=1 upgrade.sh")
	firstSpec.USB = []string{older.usb, newer.usb}
	first, worker = node{lab.Host(t, firstSpec), t}, node{lab.Host(t, workerSpec), t}
	first.must(install)
	worker.must(first.joinCommand(""))
	first.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s")
	return first, worker
}

// ask runs a command five times a second, and records the results: consecutive failures, and the times of all answers.
const ask = `
ask() { name=$1; shift; while :; do "$@" >/dev/null 2>&1 || { sleep 0.5; "$@" >/dev/null 2>&1; } && date +%s.%N >>/var/tmp/answers-$name || date >>/var/tmp/failures-$name; sleep 0.2; done; }
`

// askAPI asks the API through the balancer of a node.
const askAPI = `ask api kubectl --kubeconfig /etc/kubernetes/kubelet.conf --request-timeout=5s get --raw /version &`

// stopClients ends the clients of a node, and prints how long they had no answer and what failed twice in a row. It returns these failures,
// and the longest time without an answer. On a busy machine both say little.
func (n node) stopClients(t *testing.T, names ...string) (failures string, longest time.Duration) {
	t.Helper()
	n.must("systemctl stop clients")
	for _, name := range names {
		said := n.must(`awk 'NR > 1 && $1 - last > most { most = $1 - last } { last = $1 } END { print NR, most "s"; exit NR < 50 }' /var/tmp/answers-` + name)
		answers, most, _ := strings.Cut(strings.TrimSpace(said), " ")
		gap, err := time.ParseDuration(most)
		if err != nil {
			t.Fatalf("%s: %q: %v", name, said, err)
		}
		t.Logf("%s: %s answers, the longest time without one %s", name, answers, gap)
		longest = max(longest, gap)
		if times, _ := n.run("cat /var/tmp/failures-" + name + " 2>/dev/null"); times != "" {
			failures += name + " failed twice in a row at\n" + times
		}
	}
	if failures != "" {
		t.Log(failures)
	}
	return failures, longest
}

// TestClusterOfTwoNodesIsUpgraded upgrades a control plane and a worker without a route out by one minor version, with one
// command on the control plane.
func TestClusterOfTwoNodesIsUpgraded(t *testing.T) {
	t.Parallel()
	first, worker := outdated(t, host.Spec{}, host.Spec{})

	before := first.must(versions)
	plan := first.must(upgrade + " --plan")
	for _, want := range []string{"Kubernetes " + previous + " -> " + current, "kubernetes " + previous + " -> " + current, "1. " + first.Name() + " (control plane, " + previous + ")", "2. " + worker.Name() + " (worker, " + previous + ")", "other nodes take part"} {
		if !strings.Contains(plan, want) {
			t.Errorf("the plan lacks %q:\n%s", want, plan)
		}
	}
	if after := first.must(versions); after != before {
		t.Errorf("a plan changed the nodes:\nbefore\n%s\nafter\n%s", before, after)
	}
	first.refusesGate("SecondSight")
	worker.must("systemd-run --quiet --unit=clients bash -c " + shellword.Quote(ask+askAPI+"\nwait"))
	out := first.must(upgrade + " yes 2>&1")
	t.Log(out)
	worker.stopClients(t, "api")
	first.must("test $(cat /var/log/sealift/upgrade-*.log | grep -c 'a second API server answers') = 2 && ! systemctl is-active 'sealift-second-apiserver*' && ! ls -d /usr/local/bin/sealift-apiserver*")
	if !strings.Contains(out, "done: the cluster is upgraded") {
		t.Errorf("the upgrade ended without saying so:\n%s", out)
	}
	nodes := first.must(kubectl + "get nodes --no-headers")
	if strings.Count(nodes, " Ready ") != 2 || strings.Count(nodes, "v"+current) != 2 || strings.Contains(nodes, "SchedulingDisabled") {
		t.Errorf("nodes:\n%s", nodes)
	}
	if got := first.must(kubectl + "get pods --namespace kube-system --selector component=kube-apiserver -o jsonpath={.items[*].spec.containers[*].image}"); got != "registry.k8s.io/kube-apiserver:v"+current {
		t.Errorf("the API server runs from %s", got)
	}
	first.pulled()
	if out := first.must(upgrade + " yes 2>&1"); !strings.Contains(out, "nothing to do") {
		t.Errorf("second run:\n%s", out)
	}
	if out := first.must("cd /media/usb2 && tar xzf cluster.tar.gz -O install.sh | bash -s airgap yes 2>&1"); !strings.Contains(out, "nothing to do") {
		t.Errorf("an install with the bundle of the upgrade:\n%s", out)
	}
	if out := first.must("sealift upgrade status"); strings.Count(out, " done ") != 2 || !strings.Contains(out, "finished") {
		t.Errorf("status:\n%s", out)
	}
	third := node{lab.Host(t, host.Spec{}), t}
	third.must(first.joinCommand(""))
	first.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s")
	if got := first.must(kubectl + "get nodes --no-headers"); strings.Count(got, "v"+current) != 3 {
		t.Errorf("after a host joined the upgraded cluster:\n%s", got)
	}
}

// refusesGate gives the cluster's kubelets a feature gate that the new version does not know, asks for the upgrade, and removes
// the gate again. The refused upgrade must change nothing.
func (n node) refusesGate(gate string) {
	n.t.Helper()
	const edit = kubectl + "--namespace kube-system get configmap kubelet-config -o yaml | sed '%s' | " + kubectl + "replace -f -"
	n.must(fmt.Sprintf(edit, `s/^  kubelet: |$/&\n    featureGates: {`+gate+`: true}/`))
	before := n.must(versions)
	n.refuses(upgrade+" yes 2>&1", 3, "unrecognized feature gate: "+gate)
	if after := n.must(versions); after != before {
		n.t.Errorf("a refused upgrade changed the nodes:\nbefore\n%s\nafter\n%s", before, after)
	}
	n.must(fmt.Sprintf(edit, "/featureGates: {"+gate+": true}/d"))
}

// versions are the files that a plan must not change.
const versions = kubectl + "get nodes,pods -A -o jsonpath='{range .items[*]}{.metadata.name} {.metadata.uid} {.status.nodeInfo.kubeletVersion}{\"\\n\"}{end}'; find /var/lib/sealift /etc/kubernetes -type f -printf '%p %s %T@\\n' | sort"
