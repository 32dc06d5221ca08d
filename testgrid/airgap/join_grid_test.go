//go:build grid

package airgap_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// TestClusterSurvivesLostControlPlane makes a cluster of three control planes and two workers. One host has the bundle, each other
// one has a command. The test disconnects the host with the bundle and removes it from the cluster, lets another replace it, and
// lets a control plane leave and rejoin.
func TestClusterSurvivesLostControlPlane(t *testing.T) {
	r := build(t, current, "debian-12")
	first := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}
	first.must(install)
	second, third := node{lab.Host(t, host.Spec{}), t}, node{lab.Host(t, host.Spec{}), t}
	worker, other, late := node{lab.Host(t, host.Spec{}), t}, node{lab.Host(t, host.Spec{}), t}, node{lab.Host(t, host.Spec{}), t}
	for _, row := range []struct {
		host, from node
		flags      string
	}{{second, first, controlPlane}, {third, first, controlPlane}, {worker, first, ""}, {other, third, ""}} {
		command := row.from.joinCommand(row.flags)
		row.host.must(command)
		row.host.keepsNoSecrets(command)
	}
	first.hasMembers(3)
	second.hasNodes(5)
	second.pulled()
	for _, n := range []node{second, third, worker, other} {
		n.refuses("ip route get 1.1.1.1", 2, "unreachable")
	}
	second.refuses("sealift node remove --yes "+first.Name(), 1, "its etcd answers")
	second.refuses("sealift node remove --yes "+worker.Name(), 1, "its kubelet reports")

	first.must("ip link set host0 down")
	second.must(kubectl + "wait --for=condition=Ready=Unknown node/" + first.Name() + " --timeout=300s")
	t.Logf("one control plane is cut off:\n%s", third.must(kubectl+"get nodes -o wide; "+kubectl+"get --raw /readyz"))
	for i, n := range []node{second, worker, other} {
		runsPod(second, n, i)
	}
	second.refuses("sealift reset --yes", 1, "the cluster would stop")
	t.Log(second.must("sealift node remove --yes " + first.Name()))
	second.hasMembers(2)
	late.must(second.joinCommand(controlPlane))
	late.hasMembers(3)
	late.hasNodes(5)
	late.pulled()

	t.Log(third.must("sealift reset --yes 2>&1"))
	late.hasMembers(2)
	late.hasNodes(4)
	third.must(late.joinCommand(controlPlane))
	first.must("ip link set host0 up; sealift reset --yes")
	first.must(late.joinCommand(""))
	third.hasMembers(3)
	third.hasNodes(6)
	third.pulled()
}

// TestKilledControlPlaneJoinResumes joins a control plane with a command that is killed again and again.
func TestKilledControlPlaneJoinResumes(t *testing.T) {
	r := build(t, current, "debian-12")
	first, second := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}, node{lab.Host(t, host.Spec{}), t}
	first.must(install)
	command := first.joinCommand(controlPlane)
	killedJoin(second, command)
	second.keepsNoSecrets(command)
	first.hasMembers(2)
	second.hasNodes(2)
	second.pulled()
}

// killedJoin kills the join of a control plane at critical moments: when the host has its route to the cluster's services but is
// not a node yet, when the API server is about to start, when etcd knows a member that has not started yet, and when that member
// has started, and counts for the majority or soon will.
func killedJoin(n node, command string) {
	n.t.Helper()
	for i, moment := range []string{
		"/etc/containerd/config.toml",
		"/etc/kubernetes/manifests/kube-apiserver.yaml",
		"/etc/kubernetes/manifests/etcd.yaml",
		"/var/lib/etcd/member/wal",
	} {
		unit := fmt.Sprintf("join-%d", i)
		n.must("touch /run/began; systemd-run --quiet --unit=" + unit + " --property=KillMode=control-group bash -c " + shellword.Quote(command))
		n.must("for i in $(seq 3000); do [ ! " + moment + " -nt /run/began ] || exit 0; sleep 0.1; done; journalctl -u " + unit + "; exit 1")
		n.must("systemctl kill --signal=KILL " + unit + "; sleep 1; sealift journal")
	}
	if out := n.must(command); !strings.Contains(out, "done: ") {
		n.t.Errorf("the join ended without saying so:\n%s", out)
	}
	if out := n.must(command); !strings.Contains(out, "nothing to do") {
		n.t.Errorf("second run:\n%s", out)
	}
}

// controlPlane runs the command for one more.
const controlPlane = "--control-plane"

// TestJoinSurvivesLostNetwork disconnects a host while it fetches images, and while kubeadm talks to the cluster. Each time the
// join ends on its own, and the same command resumes.
func TestJoinSurvivesLostNetwork(t *testing.T) {
	r := build(t, current, "debian-12")
	first, worker := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}, node{lab.Host(t, host.Spec{}), t}
	first.must(install)
	command := first.joinCommand("")
	for _, step := range []string{"kubernetes/images", "kubernetes/join"} {
		out, code := worker.interrupt(interruption{command: command, step: step, record: "started", instead: "ip link set host0 down"})
		t.Logf("%s:\n%s", step, out)
		if code != 1 || !strings.Contains(out, "sealift: step "+step+": ") || !strings.Contains(out, "when the cause is gone, go on with:\n") {
			t.Errorf("without a network in step %s: exit %d\n%s", step, code, out)
		}
		worker.refuses("sealift status", 1, "failure  step "+step)
		worker.must("ip link set host0 up")
	}
	if out := worker.must(command); !strings.Contains(out, "done: ") {
		t.Errorf("the join ended without saying so:\n%s", out)
	}
	first.hasNodes(2)
	first.pulled()
}

// hasMembers checks that etcd has so many members, all of them started voters.
func (n node) hasMembers(want int) {
	n.t.Helper()
	out := n.etcdctl("member list")
	if strings.Count(out, ", started, ") != want || strings.Count(out, ", false\n") != want || strings.Count(out, "\n") != want {
		n.t.Errorf("members of etcd:\n%s", out)
	}
}

// etcdctl asks this node's member of etcd.
func (n node) etcdctl(command string) string {
	n.t.Helper()
	return n.must(kubectl + "--namespace kube-system exec etcd-" + n.Name() + " -- etcdctl --endpoints=https://127.0.0.1:2379 --cacert=/etc/kubernetes/pki/etcd/ca.crt" +
		" --cert=/etc/kubernetes/pki/etcd/server.crt --key=/etc/kubernetes/pki/etcd/server.key " + command)
}

// hasNodes checks that the cluster has so many nodes, all Ready.
func (n node) hasNodes(want int) {
	n.t.Helper()
	n.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=300s")
	if got := n.must(kubectl + "get nodes --no-headers"); strings.Count(got, " Ready ") != want {
		n.t.Errorf("not %d nodes:\n%s", want, got)
	}
}

// keepsNoSecrets checks that the secrets of the command are in no file that a join leaves: logs, journal, configuration, units.
func (n node) keepsNoSecrets(command string) {
	n.t.Helper()
	secrets := strings.Fields(strings.Trim(regexp.MustCompile(`'[a-z0-9]{6}\.[a-z0-9 ]+'`).FindString(command), "'"))
	if len(secrets) == 0 {
		n.t.Fatalf("no secrets in %s", command)
	}
	for _, secret := range secrets {
		n.must("ls /var/log/sealift/*.log && ! grep -rqF -e " + secret + " /var/log/sealift /var/lib/sealift /etc/systemd/system")
	}
}

// runsPod makes a pod on a node, through the API as another host sees it.
func runsPod(from, on node, number int) {
	from.t.Helper()
	manifest := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"after-%d"},"spec":{"nodeName":%q,
"containers":[{"name":"pause","image":%q,"imagePullPolicy":"IfNotPresent"}]}}`, number, on.Name(), pauseImage)
	from.must("for i in $(seq 60); do " + kubectl + "get serviceaccount default && break; sleep 1; done; echo " + shellword.Quote(manifest) + " | " + kubectl + "apply -f -")
	from.must(fmt.Sprintf(kubectl+"wait --for=condition=Ready pod/after-%d --timeout=180s", number))
}

// TestSecretsAreEncryptedOnEveryControlPlane installs with encryptSecrets, lets a control plane join, and has that one rotate the key.
func TestSecretsAreEncryptedOnEveryControlPlane(t *testing.T) {
	r := build(t, current, "debian-12")
	first, second := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}, node{lab.Host(t, host.Spec{}), t}
	first.must(install + " kubernetes.encryptSecrets=true")
	first.must(kubectl + "create secret generic one --from-literal=password=correct-horse-battery")
	second.must(first.joinCommand(controlPlane))
	second.hasMembers(2)
	const keys = "/etc/kubernetes/encryption/config.yaml"
	digest := func(n node) string { return n.must("stat --format=%a " + keys + "; sha256sum " + keys) }
	same := func() string {
		is := digest(first)
		if other := digest(second); other != is || !strings.HasPrefix(is, "600\n") {
			t.Errorf("the files with the keys differ, or are not for root alone:\n%s\n%s", is, other)
		}
		for _, n := range []node{first, second} {
			n.must(kubectl + "get secret one --output=jsonpath={.data.password} | base64 --decode | grep -qx correct-horse-battery")
			n.must("! grep --recursive --quiet correct-horse-battery /var/lib/etcd")
		}
		return is
	}
	before := same()
	t.Log(second.must("time sealift certs rotate-encryption --yes 2>&1"))
	if after := same(); after == before {
		t.Error("the key is the one of before")
	}
}
