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

// TestIPv6OnlyCluster makes a cluster of two hosts with only IPv6 addresses, and no route out. Pods on both nodes reach a
// Service, even after the hosts were rebooted. At the end the worker is reset to its original state.
func TestIPv6OnlyCluster(t *testing.T) {
	r := build(t, current, "debian-12")
	first := node{lab.Host(t, host.Spec{USB: []string{r.usb}, IPv6: true}), t}
	worker := node{lab.Host(t, host.Spec{IPv6: true}), t}
	first.refuses(install, 3, "set kurl.ipv6")
	first.refuses(install+" ipv6 private-address=192.0.2.1", 3, "is not an IPv6 address")
	bare := worker.state()
	began := time.Now()
	out := first.must(install + " ipv6")
	t.Logf("the first node took %s", time.Since(began).Round(time.Second))
	began = time.Now()
	worker.must(workerCommand(t, out))
	t.Logf("the worker took %s", time.Since(began).Round(time.Second))
	first.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s")
	for _, n := range []node{first, worker} {
		if got := n.must("ip -4 -brief address show scope global"); got != "" {
			t.Errorf("%s got IPv4 addresses:\n%s", n.Name(), got)
		}
	}
	if got := first.must(kubectl + "get pods -A -o jsonpath='{.items[*].status.podIP}' && " + kubectl + "get services -A -o jsonpath='{.items[*].spec.clusterIP}'"); strings.Contains(got, ".") {
		t.Errorf("pods or Services have IPv4 addresses: %s", got)
	}
	first.runsApp()
	for _, n := range []node{first, worker} {
		first.readsFrom(n, "before")
	}
	first.pulled()
	first.boots(worker)
	for _, n := range []node{first, worker} {
		first.readsFrom(n, "after")
	}
	first.must(saveSnapshot)
	first.must("sealift certs renew")
	first.refuses("sealift install --bundle /media/usb/cluster.tar.gz --yes --private-address 192.0.2.1", 3, "is none; name another one")
	if out := first.must("sealift install --bundle /media/usb/cluster.tar.gz --yes"); !strings.Contains(out, "nothing to do") {
		t.Errorf("without the word ipv6, the cluster changes:\n%s", out)
	}
	workerLeaves(first, worker, bare)
	first.must("sealift reset --yes 2>&1")
}

// TestDualStackCluster makes a cluster of two hosts with an address of each family, and no route out. Pods on both nodes reach a
// Service at each of its two addresses, even after the hosts were rebooted. At the end the worker is reset to its original state.
func TestDualStackCluster(t *testing.T) {
	r := build(t, current, "debian-12")
	first := node{lab.Host(t, host.Spec{USB: []string{r.usb}, DualStack: true}), t}
	worker := node{lab.Host(t, host.Spec{DualStack: true}), t}
	single := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}
	single.refuses(install+" dual-stack", 3, "no interface of this host has an IPv6 address")
	first.refuses(install+" dual-stack ipv6", 3, "leave out one of them")
	bare := worker.state()
	join := workerCommand(t, first.must(install+" dual-stack"))
	single.refuses(join, 3, "no interface of this host has an IPv6 address")
	worker.must(join)
	first.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s")
	for _, what := range []string{
		`nodes -o jsonpath='{range .items[*]}{.status.addresses[?(@.type=="InternalIP")].address}{"\n"}{end}'`,
		`nodes -o jsonpath='{range .items[*]}{.spec.podCIDRs}{"\n"}{end}'`,
		`pods -n kube-system -l k8s-app=kube-dns -o jsonpath='{range .items[*]}{.status.podIPs[*].ip}{"\n"}{end}'`,
	} {
		got := first.must(kubectl + "get " + what)
		if lines := strings.Split(strings.TrimSpace(got), "\n"); len(lines) != 2 || !strings.Contains(lines[0], "fd00:") || !strings.Contains(lines[0], "10.") || !strings.Contains(lines[1], "fd00:") {
			t.Errorf("%s: %s", what, got)
		}
	}
	first.runsApp()
	first.must(kubectl + `patch service notes --type merge -p '{"spec": {"ipFamilyPolicy": "RequireDualStack"}}'`)
	addresses := strings.Fields(first.must(kubectl + "get service notes -o jsonpath='{.spec.clusterIPs[0]} {.spec.clusterIPs[1]}'"))
	if len(addresses) != 2 {
		t.Fatalf("the Service has %q", addresses)
	}
	reads := func(when string) {
		for _, n := range []node{first, worker} {
			for i, url := range []string{"http://" + addresses[0] + "/", "http://[" + addresses[1] + "]/"} {
				first.podReads(n, fmt.Sprintf("reader-%s-%s-%d", n.Name(), when, i), url)
				const get = `exec 3<>"/dev/tcp/$0/80" && printf 'GET / HTTP/1.0\r\n\r\n' >&3 && cat <&3`
				if got := n.must("timeout 10 bash -c " + shellword.Quote(get) + " " + addresses[i]); !strings.Contains(got, "written to a volume by notes-") {
					t.Errorf("%s itself reads %q at %s", n.Name(), got, url)
				}
			}
		}
	}
	reads("before")
	first.pulled()
	first.boots(worker)
	reads("after")
	first.must(saveSnapshot)
	if out := first.must("sealift install --bundle /media/usb/cluster.tar.gz --yes"); !strings.Contains(out, "nothing to do") {
		t.Errorf("without the word dual-stack, the cluster changes:\n%s", out)
	}
	workerLeaves(first, worker, bare)
	first.must("sealift reset --yes 2>&1")
}

// boots boots this control plane and another node again, and waits for them and for the demo's application.
func (n node) boots(other node) {
	n.t.Helper()
	for _, one := range []node{n, other} {
		if err := one.Reboot(n.t.Context()); err != nil {
			n.t.Fatal(err)
		}
	}
	n.must("for i in $(seq 90); do " + kubectl + "wait --for=condition=Ready nodes --all --timeout=10s && exit 0; sleep 2; done; exit 1")
	n.must(kubectl + "rollout status deployment/notes --timeout=180s")
}

// readsFrom has a pod on a node read from the Service of the demo's application, by its name.
func (n node) readsFrom(of node, when string) {
	n.t.Helper()
	n.podReads(of, "reader-"+of.Name()+"-"+when, "http://notes/")
}

// podReads has a pod on a node read from the Service of the demo's application.
func (n node) podReads(of node, pod, url string) {
	n.t.Helper()
	n.must(kubectl + "run " + pod + " --image=docker.io/library/busybox:1.35.0 --image-pull-policy=IfNotPresent --restart=Never --overrides=" +
		shellword.Quote(`{"spec":{"nodeName":"`+of.Name()+`"}}`) + " --command -- sh -c " + shellword.Quote("for i in $(seq 60); do wget -q -O - "+url+" && exit 0; sleep 1; done; exit 1"))
	n.must(kubectl + "wait --for=jsonpath={.status.phase}=Succeeded pod/" + pod + " --timeout=120s")
	if got := n.must(kubectl + "logs " + pod); !strings.Contains(got, "written to a volume by notes-") {
		n.t.Errorf("a pod on %s read %q", of.Name(), got)
	}
}
