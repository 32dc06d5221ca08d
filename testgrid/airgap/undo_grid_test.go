//go:build grid

package airgap_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// manyObjects creates 2,000 objects, and storedObjects lists the cluster's objects.
const (
	manyObjects   = `for n in $(seq 2000); do printf -- '---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept-%s}\ndata: {number: "%s"}\n' $n $n; done | ` + kubectl + "apply -f - >/dev/null"
	storedObjects = kubectl + "get deployments,daemonsets,services,secrets,clusterroles,configmaps -A -o jsonpath='{range .items[*]}{.kind} {.metadata.namespace} {.metadata.name} {.metadata.uid} {.spec} {.rules} {.data}{\"\\n\"}{end}' | grep -v ' sealift-upgrade ' | sort | sha256sum"
)

// TestUpgradeIsUndone takes a control plane and a worker to the next minor version and back: 2,000 objects are restored, newer ones
// are gone and were named, and the same upgrade works again. The first undo is killed.
func TestUpgradeIsUndone(t *testing.T) {
	first, worker := outdated(t, host.Spec{}, host.Spec{})
	first.refuses("sealift upgrade undo --yes 2>&1", 1, "keeps nothing to go back to")
	first.must(manyObjects)
	const ours = "cat /var/lib/sealift/state/installer.yaml /etc/kubernetes/manifests/*.yaml /var/lib/kubelet/config.yaml /usr/local/bin/kubelet | sha256sum"
	before, files := first.must(storedObjects), first.must(ours)
	first.must(upgrade + " yes 2>&1")
	first.runs("v"+current, 2)
	first.must(kubectl + "create configmap since-then && " + kubectl + "delete configmap kept-7")
	plan := first.must("sealift upgrade undo --plan 2>&1")
	for _, want := range []string{"back to Kubernetes " + previous, "node " + worker.Name() + " goes back first", "is removed: configmaps/default/since-then", "comes back: configmaps/default/kept-7"} {
		if !strings.Contains(plan, want) {
			t.Errorf("the plan lacks %q:\n%s", want, plan)
		}
	}
	first.run("timeout --signal=KILL 20 sealift upgrade undo --yes")
	out := first.must("sealift upgrade undo --yes 2>&1")
	t.Log(out)
	first.runs("v"+previous, 2)
	first.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s")
	if after := first.must(storedObjects); after != before {
		t.Errorf("the objects are not those of before:\n%s\n%s", before, after)
	}
	if after := first.must(ours); after != files {
		t.Error("the files are not those of before")
	}
	first.must("for i in $(seq 60); do sealift status && exit 0; sleep 2; done; exit 1")
	first.must(kubectl + "wait --for=condition=Ready pods --all --all-namespaces --timeout=600s") // some ended while the API was away
	t.Log(first.must(upgrade + " yes 2>&1"))
	first.runs("v"+current, 2)
	first.pulled()
}

// TestUpgradeOfThreeControlPlanesIsUndone takes three control planes and a worker to the next minor version and back.
func TestUpgradeOfThreeControlPlanesIsUndone(t *testing.T) {
	older, newer := build(t, previous, "debian-12"), build(t, current, "debian-12")
	shell(t, newer.usb, "tar xzf cluster.tar.gz --occurrence=1 upgrade.sh")
	undoneOnThree(t, []string{older.usb, newer.usb}, []string{controlPlane, controlPlane, ""}, "v"+previous)
}

// TestAddOnOfThreeControlPlanesIsUndone takes three control planes to another image of a DaemonSet and back. It is the shorter test:
// Kubernetes stays.
func TestAddOnOfThreeControlPlanesIsUndone(t *testing.T) {
	r := build(t, current, "debian-12")
	usb := []string{r.watched(t, "1.0", "docker.io/library/busybox:1.35.0"), r.watched(t, "2.0", "registry.k8s.io/kube-proxy:v"+previous)}
	undoneOnThree(t, usb, []string{controlPlane, controlPlane}, "v"+current)
}

// undoneOnThree installs from the first disk, lets others join, upgrades from the second disk, and undoes that: 2,000 objects are
// restored. While a control plane is unreachable, the undo is refused before anything changes. Then it is killed, and resumes.
func undoneOnThree(t *testing.T, usb, joins []string, version string) {
	t.Helper()
	first := node{lab.Host(t, host.Spec{USB: usb}), t}
	first.must(install)
	all := []node{first}
	for _, flags := range joins {
		n := node{lab.Host(t, host.Spec{}), t}
		n.must(first.joinCommand(flags))
		all = append(all, n)
	}
	first.hasMembers(3)
	first.must(manyObjects)
	before := first.must(storedObjects)
	t.Log(first.must(upgrade + " yes 2>&1"))
	first.must(kubectl + "create configmap since-then")
	all[1].refuses("sealift upgrade undo --plan 2>&1", 1, "node "+first.Name()+" has the snapshot")
	if plan := first.must("sealift upgrade undo --plan 2>&1"); !strings.Contains(plan, "go back together") || !strings.Contains(plan, "configmaps/default/since-then") {
		t.Errorf("plan:\n%s", plan)
	}
	all[2].must("systemctl stop kubelet")
	first.must("timeout 180 sh -c 'until " + kubectl + "get nodes | grep -q NotReady; do sleep 2; done'")
	first.refuses("sealift upgrade undo --yes 2>&1", 1, all[2].Name()+" is not Ready")
	all[2].must("systemctl start kubelet")
	first.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s && " + kubectl + "get configmap since-then")

	first.goesBack(all, version, before)
}

// goesBack undoes the last upgrade of a cluster of three control planes and perhaps more nodes. The first command is killed, and the second one
// resumes. Then all nodes run this version again, and the stored objects are those of before the upgrade.
func (n node) goesBack(all []node, version, objects string) {
	n.t.Helper()
	began := time.Now()
	out, _ := n.run("timeout --signal=KILL 25 sealift upgrade undo --yes 2>&1")
	n.t.Log(out)
	if !strings.Contains(out, "done: the cluster runs") {
		n.t.Log(n.must("sealift upgrade undo --yes 2>&1"))
	}
	n.t.Logf("%d nodes went back in %s, with a kill", len(all), time.Since(began).Round(time.Second))
	n.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s")
	n.runs(version, len(all))
	n.hasMembers(3)
	if after := n.must(storedObjects); after != objects {
		n.t.Errorf("the objects are not those of before:\n%s\n%s", objects, after)
	}
	for _, each := range all {
		each.must("for i in $(seq 60); do sealift status && break; sleep 2; done; sealift status && test -z \"$(find /var/lib/sealift/state/undo -name set.json)\"")
	}
	n.pulled()
}
