//go:build grid

package airgap_test

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// TestLastReleasesAreUpgradedAndUndone takes a node from the Kubernetes before the newest one, on the oldest containerd and flannel that
// ship, to the newest releases, and back: etcd's data has a format that its older release does not read, so they come from the snapshot.
func TestLastReleasesAreUpgradedAndUndone(t *testing.T) {
	now, before := newest("kubernetes"), newest("kubernetes").Before()
	oldest := func(name string) releases.Release { return releases.Of(name, releases.Shipped)[0] }
	older, newer := releasesOf(t, "last-releases", before, oldest("containerd"), oldest("flannel")), releasesOf(t, "newest", now, newest("containerd"), newest("flannel"))
	shell(t, newer.usb, "tar xzf cluster.tar.gz --occurrence=1 upgrade.sh")
	n := node{lab.Host(t, host.Spec{USB: []string{older.usb, newer.usb}}), t}
	n.must(install)
	n.runs("v"+before.Version, 1)
	n.runsOn(oldest("containerd").Version)
	n.etcdIs(before)
	n.must(manyObjects)
	objects := n.must(storedObjects)

	n.refusesGate("SidecarContainers") // Kubernetes 1.37 removed it
	n.must("systemd-run --quiet --unit=clients bash -c " + shellword.Quote(ask+askAPI+"\nwait"))
	t.Log(n.must(upgrade + " yes 2>&1"))
	n.stopClients(t, "api")
	n.runs("v"+now.Version, 1)
	n.runsOn(newest("containerd").Version)
	n.etcdIs(now)
	cluster(n)
	n.must(kubectl + "delete job/reader && " + kubectl + "create configmap since-then && " + kubectl + "delete configmap kept-7")

	if plan := n.must("sealift upgrade undo --plan 2>&1"); !strings.Contains(plan, "back to Kubernetes "+before.Version) || !strings.Contains(plan, "comes back: configmaps/default/kept-7") {
		t.Errorf("plan:\n%s", plan)
	}
	n.run("timeout --signal=KILL 20 sealift upgrade undo --yes")
	t.Log(n.must("sealift upgrade undo --yes 2>&1"))
	n.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s")
	n.runs("v"+before.Version, 1)
	n.etcdIs(before)
	if after := n.must(storedObjects); after != objects {
		t.Errorf("the objects are not those of before:\n%s\n%s", objects, after)
	}
	n.must("for i in $(seq 60); do sealift status && exit 0; sleep 2; done; exit 1")
	t.Log(n.must(upgrade + " yes 2>&1"))
	n.runs("v"+now.Version, 1)
	n.etcdIs(now)
	n.pulled()
}

// etcdIs checks the image of etcd, and that it answers with this version.
func (n node) etcdIs(kubernetes releases.Release) {
	n.t.Helper()
	image := "registry.k8s.io/etcd:" + kubernetes.With["etcd"]
	if got := n.must(kubectl + "--namespace kube-system get pods --selector component=etcd -o jsonpath='{.items[*].spec.containers[*].image}'"); got != image {
		n.t.Errorf("etcd runs from %s, want %s", got, image)
	}
	version, _, _ := strings.Cut(kubernetes.With["etcd"], "-")
	if got := n.etcdctl("endpoint status --write-out=json"); !strings.Contains(got, `"version":"`+version+`"`) {
		n.t.Errorf("etcd says %s, want %s", got, version)
	}
}
