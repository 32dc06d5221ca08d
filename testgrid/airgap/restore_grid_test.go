//go:build grid

package airgap_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/scenario"
)

const (
	saveSnapshot    = "sealift snapshot save --out /var/tmp/snapshot --key $(sealift snapshot key --out /var/tmp/snapshots.key)"
	restoreSnapshot = "sealift restore /var/tmp/snapshot --identity /var/tmp/snapshots.key"
	ofItsCluster    = " --ca-hash $(cat /var/tmp/ca-hash)" // for hosts without a CA
)

// makeObjects makes 2,000 ConfigMaps.
func (n node) makeObjects() {
	n.t.Helper()
	n.must(`kubectl --kubeconfig /etc/kubernetes/admin.conf create namespace many
for i in $(seq 2000); do
	printf '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"object-%d","namespace":"many"},"data":{"value":"%d-%0300d"}}\n' $i $i $i
done | kubectl --kubeconfig /etc/kubernetes/admin.conf create -f - | wc -l`)
}

// manyObjects returns a digest of these ConfigMaps with their UIDs and revisions.
func (n node) manyObjects() string {
	n.t.Helper()
	const fields = `{range .items[*]}{.metadata.name} {.metadata.uid} {.metadata.resourceVersion} {.data}{"\n"}{end}`
	out := n.must(kubectl + "get configmaps --namespace many --output " + shellword.Quote("jsonpath="+fields) + " >/var/tmp/objects; grep -c ^object- /var/tmp/objects; sha256sum </var/tmp/objects")
	if !strings.HasPrefix(out, "2000\n") {
		n.t.Errorf("not 2,000 objects: %s", out)
	}
	return out
}

// kills kills the processes of a program, which run in containers.
func (n node) kills(program string) {
	n.t.Helper()
	n.must("for p in /proc/[0-9]*; do [ \"$(cat $p/comm 2>/dev/null)\" != " + program + " ] || kill -KILL ${p#/proc/}; done")
}

// beginsEmpty removes etcd's data, and checks that etcd begins without any, as kubeadm's manifest lets it.
func (n node) beginsEmpty() {
	n.t.Helper()
	n.must("rm -rf /var/lib/etcd")
	n.kills("etcd")
	n.must("for i in $(seq 120); do " + kubectl + "get namespace many 2>&1 | grep -q NotFound && exit 0; sleep 1; done; exit 1")
}

// hasAll checks that a restored control plane has the objects of the snapshot, and that its pods run.
func (n node) hasAll(objects string) {
	n.t.Helper()
	if got := n.manyObjects(); got != objects {
		n.t.Errorf("the objects are %s, were %s", got, objects)
	}
	if out, code := n.run(kubectl + "get configmap late"); code == 0 {
		n.t.Errorf("what was written after the snapshot is there: %s", out)
	}
	n.must("for i in $(seq 120); do " + kubectl + "get pods -A --no-headers | grep -vE ' (Running|Completed) ' || exit 0; sleep 1; done; exit 1")
	n.must("sealift status")
}

// TestLostEtcdIsRestored removes etcd's data, and then also the keys. It kills the command at ten moments.
func TestLostEtcdIsRestored(t *testing.T) {
	r := build(t, current, "debian-12")
	n := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}
	n.must(install)
	n.makeObjects()
	n.must(saveSnapshot)
	n.keepsHash()
	objects := n.manyObjects()
	n.drills(restoreSnapshot + " --drill")
	n.must(kubectl + "create configmap late")
	plan := n.must(restoreSnapshot + " --plan")
	if !strings.Contains(plan, "is removed: configmaps/default/late\n") || !strings.Contains(plan, "restore/exchange") {
		t.Errorf("the plan is\n%s", plan)
	}
	n.beginsEmpty()
	began := time.Now()
	out := n.must(restoreSnapshot + " --yes")
	took := time.Since(began)
	t.Logf("etcd's data is back in %s:\n%s", took.Round(time.Second), out)
	if !strings.Contains(out, "etcd began without data after the loss") {
		t.Errorf("it does not tell what is lost:\n%s", out)
	}
	n.hasAll(objects)

	n.must("rm -rf /var/lib/etcd /etc/kubernetes")
	n.kills("etcd")
	n.kills("kube-apiserver")
	n.refuses(restoreSnapshot+" --yes", 1, "this host has no CA to compare with")
	n.refuses(restoreSnapshot+" --yes --ca-hash sha256:"+strings.Repeat("0", 64), 1, "a control plane of the cluster with the CA")
	began = time.Now()
	out = n.must(restoreSnapshot + ofItsCluster + " --yes")
	took = time.Since(began)
	t.Logf("etcd's data and the keys are back in %s:\n%s", took.Round(time.Second), out)
	n.hasAll(objects)

	random := seeded(t)
	n.beginsEmpty()
	killed := 0
	for range 10 {
		after := time.Duration(random.Float64() * float64(took))
		if _, code := n.run(fmt.Sprintf("timeout --foreground --signal KILL %.3f %s --yes", after.Seconds(), restoreSnapshot)); code == 128+9 {
			killed++
		}
	}
	t.Logf("%d of 10 were killed before their end", killed)
	n.must(restoreSnapshot + " --yes")
	n.hasAll(objects)
	t.Run("new host", func(t *testing.T) {
		node{n.Host, t}.movesTo(node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}, objects)
	})
}

// drills tries the snapshot on this host.
func (n node) drills(command string) {
	n.t.Helper()
	out := n.must(command)
	n.t.Logf("%s: %s", n.Name(), out)
	if !strings.Contains(out, " 0 differ, 0 cannot be read by the API server\n") || !regexp.MustCompile(`(?m)^ *20\d\d configmaps$`).MatchString(out) {
		n.t.Errorf("the drill says\n%s", out)
	}
}

// keepsHash notes the hash of the cluster's CA, as an administrator does.
func (n node) keepsHash() {
	n.t.Helper()
	n.must("sealift snapshot show /var/tmp/snapshot --identity /var/tmp/snapshots.key | awk '$1 == \"cluster\" {print $2}' >/var/tmp/ca-hash")
}

// givesSnapshot carries the snapshot, its key and the hash of the CA to a bare host, which unpacks sealift.
func (n node) givesSnapshot(to node) {
	n.t.Helper()
	n.keepsHash()
	for _, name := range []string{"snapshot", "snapshots.key", "ca-hash"} {
		content := n.must("base64 -w0 /var/tmp/" + name)
		if err := to.Exec(n.t.Context(), host.Command{Args: []string{"bash", "-c", "base64 -d >/var/tmp/" + name}, Stdin: strings.NewReader(content)}); err != nil {
			n.t.Fatal(err)
		}
	}
	to.must("tar xzf /media/usb/cluster.tar.gz --occurrence=1 -O bin/sealift >/var/tmp/sealift; chmod +x /var/tmp/sealift")
}

// movesTo restores the snapshot of a control plane that is gone on a host with another name and another address.
func (n node) movesTo(to node, objects string) {
	n.givesSnapshot(to)
	to.refuses("/var/tmp/"+restoreSnapshot+" --bundle /media/usb/cluster.tar.gz --yes", 1, "this host has no CA to compare with")
	bare := to.state()
	to.drills("/var/tmp/" + restoreSnapshot + ofItsCluster + " --drill --bundle /media/usb/cluster.tar.gz")
	if diff := scenario.Differences(bare, to.state(), " transient"); len(diff) > 0 {
		n.t.Errorf("the drill leaves\n%s", strings.Join(diff, "\n"))
	}
	command := "/var/tmp/" + restoreSnapshot + ofItsCluster + " --bundle /media/usb/cluster.tar.gz --yes"
	to.refuses(command, 1, "etcd of "+n.Name()+" answers")
	n.must("ip link set host0 down")
	began := time.Now()
	out := to.must(command)
	n.t.Logf("restored on a new host in %s:\n%s", time.Since(began).Round(time.Second), out)
	to.hasMembers(1)
	to.hasNodes(1)
	to.hasAll(objects)
	to.pulled()
}

// TestLastControlPlaneContinues removes the majority from clusters of two and of three control planes, and lets the last one continue
// with its own data. Others join it then.
func TestLastControlPlaneContinues(t *testing.T) {
	r := build(t, current, "debian-12")
	last := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}
	second, third := node{lab.Host(t, host.Spec{}), t}, node{lab.Host(t, host.Spec{}), t}
	last.must(install)
	last.refuses("sealift restore --survivor --yes", 1, "etcd has no other members")
	last.makeObjects()
	objects := last.manyObjects()
	join := func(command string, hosts ...node) {
		for _, n := range hosts {
			n.must(command)
		}
	}
	lose := func(hosts ...node) {
		for _, n := range hosts {
			n.must("ip link set host0 down")
		}
		last.must("for i in $(seq 60); do " + kubectl + "get --raw /readyz --request-timeout=3s || exit 0; sleep 1; done; exit 1")
	}
	goOn := func(gone ...node) (command string) {
		began := time.Now()
		out := last.must("sealift restore --survivor --yes")
		t.Logf("without %d control planes the last one goes on after %s:\n%s", len(gone), time.Since(began).Round(time.Second), out)
		last.hasMembers(1)
		last.hasNodes(1)
		if got := last.manyObjects(); got != objects {
			t.Errorf("the objects are %s, were %s", got, objects)
		}
		for _, n := range gone {
			n.must("sealift reset --yes --force; ip link set host0 up")
		}
		_, command, _ = strings.Cut(out, "within 2 hours:\n")
		return command
	}
	join(last.joinCommand(controlPlane), second)
	last.refuses("sealift restore --survivor --yes", 1, "etcd of "+second.Name()+" answers")
	lose(second)
	join(goOn(second), second, third)
	last.hasMembers(3)
	last.hasNodes(3)
	lose(second, third)
	join(goOn(second, third), second, third)
	last.hasMembers(3)
	last.hasNodes(3)
	third.pulled()
}
