//go:build grid

package airgap_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/testgrid/lab/host"
)

// TestClusterWithIPv6Alone makes a cluster of two hosts that have IPv6 addresses alone, and no route out. Pods on both nodes reach a
// Service, also after the hosts were rebooted. At the end the worker leaves, and is what it was.
func TestClusterWithIPv6Alone(t *testing.T) {
	r := build(t, "1.36.3", "debian-12")
	first := node{host.ForTest(t, host.Spec{USB: []string{r.usb}, IPv6: true}), t}
	worker := node{host.ForTest(t, host.Spec{IPv6: true}), t}
	first.refuses(install, 1, "set kurl.ipv6")
	first.refuses(install+" ipv6 private-address=192.0.2.1", 1, "is not an IPv6 address")
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
	for _, n := range []node{first, worker} {
		if err := n.Reboot(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	first.must("for i in $(seq 90); do " + kubectl + "wait --for=condition=Ready nodes --all --timeout=10s && exit 0; sleep 2; done; exit 1")
	first.must(kubectl + "rollout status deployment/notes --timeout=180s")
	for _, n := range []node{first, worker} {
		first.readsFrom(n, "after")
	}
	first.must(saveSnapshot)
	first.must("sealift certs renew")
	first.refuses("sealift install --bundle /media/usb/cluster.tar.gz --yes --private-address 192.0.2.1", 1, "is none; name another one")
	if out := first.must("sealift install --bundle /media/usb/cluster.tar.gz --yes"); !strings.Contains(out, "nothing to do") {
		t.Errorf("without the word ipv6, the cluster changes:\n%s", out)
	}
	workerLeaves(first, worker, bare)
	first.must("sealift reset --yes 2>&1")
}

// readsFrom has a pod on a node read from the Service of the demo's application, by its name.
func (n node) readsFrom(of node, when string) {
	n.t.Helper()
	pod := "reader-" + of.Name() + "-" + when
	n.must(kubectl + "run " + pod + " --image=docker.io/library/busybox:1.35.0 --image-pull-policy=IfNotPresent --restart=Never --overrides=" +
		quoted(`{"spec":{"nodeName":"`+of.Name()+`"}}`) + " --command -- sh -c " + quoted("for i in $(seq 60); do wget -q -O - http://notes/ && exit 0; sleep 1; done; exit 1"))
	n.must(kubectl + "wait --for=jsonpath={.status.phase}=Succeeded pod/" + pod + " --timeout=120s")
	if got := n.must(kubectl + "logs " + pod); !strings.Contains(got, "written to a volume by notes-") {
		n.t.Errorf("a pod on %s read %q", of.Name(), got)
	}
}
