//go:build grid

package airgap_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/internal/testing/isolation"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/lab/mirror"
)

// asked is a Deployment behind a Service that keeps two of its three pods.
const asked = `apiVersion: apps/v1
kind: Deployment
metadata: {name: asked}
spec:
  replicas: 3
  selector: {matchLabels: {app: asked}}
  template:
    metadata: {labels: {app: asked}}
    spec:
      terminationGracePeriodSeconds: 10
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: asked}}}
      containers:
      - name: server
        image: docker.io/library/busybox:1.35.0
        imagePullPolicy: IfNotPresent
        command: [sh, -c, 'mkdir /www && echo here >/www/index.html && exec httpd -f -p 8080 -h /www']
        lifecycle: {preStop: {exec: {command: [sleep, "5"]}}}
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: asked}
spec:
  selector: {app: asked}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: asked}
spec:
  maxUnavailable: 1
  selector: {matchLabels: {app: asked}}
`

// clients queries a Service and the API five times a second each, the API through the balancer and as pods do, and records what
// failed twice in a row.
const clients = ask + `
ask service timeout 3 bash -c 'exec 3<>"/dev/tcp/$0/80" && printf "GET / HTTP/1.0\\r\\n\\r\\n" >&3 && grep -q here <&3' "$1" &
` + askAPI + `
ask kubernetes kubectl --kubeconfig /etc/kubernetes/kubelet.conf --server "https://$2" --request-timeout=5s get --raw /version &
wait
`

// minors makes the bundle of a cluster whose Kubernetes is two minor versions old, and one with all that it takes to upgrade it.
func minors(t *testing.T) (older, newer delivery) {
	t.Helper()
	oldest := releases.Current("kubernetes").Before().Before()
	older = deliveries.once(t, "minors", func(r delivery) {
		from, err := filepath.Abs(filepath.Join(repository, "addons/kubernetes"))
		if err != nil {
			t.Fatal(err)
		}
		shell(t, r.dir(), "mkdir addons newer && cp -a "+shellword.Quote(from)+" addons/")
		if oldest.Use < releases.Shipped {
			r.run(t, "addon", "new-version", "kubernetes", oldest.Version, "--no-lock", "--addons", filepath.Join(r.dir(), "addons"), "--set", oldest.Parameters())
		}
		kubernetes := []string{"v" + oldest.Version, "v" + previous, "v" + current}
		r.mirrored(t, mirror.Of(kubernetes...), func() {
			args := []string{"build", "--out", r.packages, "--target", "debian-12", "--config", r.config, "--cache", r.cache, filepath.Join(r.dir(), oldest.Folder()), "addons/kubernetes/" + previous}
			for _, a := range addOns(current) {
				args = append(args, "addons/"+a)
			}
			r.run(t, args...)
		})
		demo, err := os.ReadFile(filepath.Join(repository, "testgrid/demo/installer.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		r.bundle(t, strings.ReplaceAll(string(demo), current, oldest.Version))
		newest := filepath.Join(r.dir(), "newest.yaml")
		place(t, newest, demo)
		r.run(t, "bundle", "-f", newest, "--store", r.packages, "--upgrade-from", oldest.Version, "--out", filepath.Join(r.dir(), "newer", "cluster.tar.gz"))
		shell(t, filepath.Join(r.dir(), "newer"), "tar xzf cluster.tar.gz --occurrence=1 upgrade.sh")
	})
	newer = older
	newer.usb = filepath.Join(older.dir(), "newer")
	return older, newer
}

// TestUpgradeOfThreeControlPlanes takes three control planes and a worker over two minor versions with one command, while clients
// ask a Service and the API.
func TestUpgradeOfThreeControlPlanes(t *testing.T) {
	older, newer := minors(t)
	first := node{lab.Host(t, host.Spec{USB: []string{older.usb, newer.usb}}), t}
	first.must(install)
	var others []node
	for _, flags := range []string{controlPlane, controlPlane, ""} {
		n := node{lab.Host(t, host.Spec{}), t}
		n.must(first.joinCommand(flags))
		others = append(others, n)
	}
	worker := others[2]
	first.hasMembers(3)
	first.hasNodes(4)
	first.apply(asked)
	first.must(kubectl + "rollout status deployment/asked --timeout=180s")
	services := first.must(kubectl + "get services asked kubernetes -o jsonpath={.items[*].spec.clusterIP}")
	first.must(manyObjects)
	objects := first.must(storedObjects)
	worker.must("systemd-run --quiet --unit=clients bash -c " + shellword.Quote(clients) + " clients " + services)

	out := first.must(upgrade + " yes 2>&1")
	t.Log(out)
	if !strings.Contains(out, "all nodes go to Kubernetes "+previous+" first") {
		t.Error("the cluster did not stop at " + previous)
	}
	if failures, _ := worker.stopClients(t, "service", "api", "kubernetes"); failures != "" {
		t.Error(failures)
	}
	t.Log(first.must("sealift upgrade status"))
	first.runs("v"+current, 4)
	first.pulled()
	others[0].must("sealift status")
	first.goesBack(append([]node{first}, others...), "v"+releases.Current("kubernetes").Before().Before().Version, objects)
}

// fromRecord makes a bundle for a cluster of minors, without the cluster's content, on a disk of its control plane.
func (r delivery) fromRecord(t *testing.T, first node, disk string) {
	t.Helper()
	record := filepath.Join(t.TempDir(), "RECORD.json")
	place(t, record, []byte(first.must("sealift status --record")))
	r.run(t, "bundle", "-f", filepath.Join(r.dir(), "newest.yaml"), "--store", r.packages, "--upgrade-from", record, "--out", filepath.Join(disk, "cluster.tar.gz"))
	shell(t, disk, "tar xzf cluster.tar.gz --occurrence=1 upgrade.sh")
	var sizes [2]int64
	for n, folder := range []string{filepath.Join(r.dir(), "newer"), disk} {
		info, err := os.Stat(filepath.Join(folder, "cluster.tar.gz"))
		if err != nil {
			t.Fatal(err)
		}
		sizes[n] = info.Size()
	}
	t.Logf("the bundle of a version has %d bytes, that of the record %d bytes", sizes[0], sizes[1])
	if sizes[1] > sizes[0]*9/10 { // versions of Kubernetes share little; the other add-ons are left out
		t.Error("the cluster has more of it")
	}
}

// runs checks the number of nodes, and that all are Ready with a version of Kubernetes.
func (n node) runs(version string, nodes int) {
	n.t.Helper()
	if got := n.must(kubectl + "get nodes --no-headers"); strings.Count(got, version) != nodes || strings.Count(got, " Ready ") != nodes {
		n.t.Errorf("nodes:\n%s", got)
	}
}

// maxGap is the goal for the time without an answer when the only API server is replaced.
const maxGap = 3 * time.Second

// TestUpgradeOfOneNode upgrades a cluster of one node over two minor versions with a bundle without the cluster's content: its API
// is never unreachable for long, and pods restart only if necessary.
func TestUpgradeOfOneNode(t *testing.T) {
	older, _ := minors(t)
	disk := t.TempDir()
	n := node{lab.Host(t, host.Spec{USB: []string{older.usb, disk}}), t}
	n.must(install)
	older.fromRecord(t, n, disk)
	n.apply(asked)
	n.must(kubectl + "rollout status deployment/asked --timeout=180s")
	const pods = kubectl + "get pods --selector app=asked -o jsonpath='{range .items[*]}{.metadata.uid} {.status.containerStatuses[*].restartCount}{\"\\n\"}{end}' | sort"
	before := n.must(pods)
	services := n.must(kubectl + "get services asked kubernetes -o jsonpath={.items[*].spec.clusterIP}")
	n.must("systemd-run --quiet --unit=sealift-second-apiserver sleep infinity") // instead of leftovers of a killed upgrade
	n.must("systemd-run --quiet --unit=clients bash -c " + shellword.Quote(clients) + " clients " + services)
	t.Log(n.must(upgrade + " yes 2>&1"))
	// Requests may fail twice in a row while etcd restarts.
	if _, longest := n.stopClients(t, "service", "api", "kubernetes"); longest >= maxGap {
		t.Errorf("nobody answered for %s; the goal is less than %s", longest, maxGap)
	}
	if after := n.must(pods); after != before {
		t.Errorf("pods restarted:\nbefore\n%s\nafter\n%s", before, after)
	}
	n.must("test $(cat /var/log/sealift/upgrade-*.log | grep -c 'a second API server answers') = 4 && ! grep 'both API servers\\|does not lead' /var/log/sealift/upgrade-*.log")
	n.runs("v"+current, 1)
	n.pulled()
}

// TestBlockedUpgradeIsStopped uses a budget that blocks every eviction, a full disk, and a node without power: each is refused
// before the first change or ends the run with a remedy, the cluster keeps serving, and the same command finishes after the
// repair.
func TestBlockedUpgradeIsStopped(t *testing.T) {
	first, worker := outdated(t, host.Spec{}, host.Spec{})
	first.apply(asked)
	first.must(kubectl + "rollout status deployment/asked --timeout=180s")
	refused := func(why string) {
		t.Helper()
		before := first.must(versions)
		first.refuses(upgrade+" yes 2>&1", 3, why)
		if after := first.must(versions); after != before {
			t.Errorf("a refused upgrade changed the nodes:\nbefore\n%s\nafter\n%s", before, after)
		}
	}
	first.must(kubectl + `patch poddisruptionbudget asked --type=merge -p '{"spec":{"maxUnavailable":0}}' && sleep 5`)
	refused("asked")
	first.must(kubectl + `patch poddisruptionbudget asked --type=merge -p '{"spec":{"maxUnavailable":1}}' && sleep 5`)

	worker.must("mount -t tmpfs -o size=64m none /var/lib/sealift/addons 2>/dev/null || { mkdir -p /var/lib/sealift/addons && mount -t tmpfs -o size=64m none /var/lib/sealift/addons; }")
	refused(worker.Name())
	worker.must("umount /var/lib/sealift/addons")

	worker.must("systemctl stop sealift-agent")
	first.refuses(upgrade+" yes 2>&1", 3, worker.Name())
	first.must(kubectl + "get --raw /readyz && sealift status")
	worker.must("systemctl start sealift-agent")

	t.Log(first.must(upgrade + " yes 2>&1"))
	first.runs("v"+current, 2)
}

// watcher is an add-on with a DaemonSet.
const watcher = `# shellcheck shell=bash
watcher() { sealift_apply watcher "$DIR/addons/watcher/$WATCHER_VERSION/yaml"; }
`

// watched makes a bundle with the packages of the road and one version of that add-on, whose pods have this image, and returns the
// folder for the USB disk.
func (r delivery) watched(t *testing.T, version, image string) string {
	t.Helper()
	dir := filepath.Join(r.dir(), "watcher-"+version)
	addOn := filepath.Join(dir, "addons/watcher", version)
	place(t, filepath.Join(addOn, "Manifest"), []byte("image watcher "+image+"\n"))
	place(t, filepath.Join(addOn, "install.sh"), []byte(watcher))
	place(t, filepath.Join(addOn, "yaml/kustomization.yaml"), []byte("resources: [watcher.yaml]\n"))
	place(t, filepath.Join(addOn, "yaml/watcher.yaml"), []byte(`apiVersion: apps/v1
kind: DaemonSet
metadata: {name: watcher, namespace: kube-system}
spec:
  selector: {matchLabels: {app: watcher}}
  template:
    metadata: {labels: {app: watcher}}
    spec:
      terminationGracePeriodSeconds: 0
      tolerations: [{operator: Exists}]
      containers:
      - {name: watcher, image: "`+image+`", imagePullPolicy: IfNotPresent, command: [sh, -c, "while :; do sleep 1; done"]}
`))
	shell(t, dir, "cp -rl ../packages packages && mkdir usb")
	r.config = filepath.Join(dir, "sealift.yaml")
	r.mirrored(t, mirror.Options{}, func() {
		r.run(t, "build", addOn, "--out", filepath.Join(dir, "packages"), "--target", "debian-12", "--config", r.config, "--cache", r.cache)
	})
	demo, err := os.ReadFile(filepath.Join(r.dir(), "installer.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	installer := filepath.Join(dir, "installer.yaml")
	place(t, installer, append(bytes.TrimSpace(demo), "\n  watcher:\n    version: \""+version+"\"\n"...))
	r.run(t, "bundle", "-f", installer, "--store", filepath.Join(dir, "packages"), "--out", filepath.Join(dir, "usb/cluster.tar.gz"))
	shell(t, filepath.Join(dir, "usb"), "tar xzf cluster.tar.gz --occurrence=1 install.sh upgrade.sh")
	return filepath.Join(dir, "usb")
}

// TestDaemonSetRollsOutWhereImagesExist changes the image of a DaemonSet on three nodes. Nothing is carried to two of them, each node
// has the image before its pod restarts, and no other pod leaves its node.
func TestDaemonSetRollsOutWhereImagesExist(t *testing.T) {
	r := build(t, current, "debian-12")
	image := "registry.k8s.io/kube-proxy:v" + previous // that nothing else of this cluster has
	usb := []string{r.watched(t, "1.0", "docker.io/library/busybox:1.35.0"), r.watched(t, "2.0", image)}
	first := node{lab.Host(t, host.Spec{USB: usb}), t}
	first.must(install)
	var others []node
	for range 2 {
		n := node{lab.Host(t, host.Spec{}), t}
		n.must(first.joinCommand(""))
		others = append(others, n)
	}
	first.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s && " + kubectl + "--namespace kube-system rollout status daemonset/watcher --timeout=180s")
	const pods = kubectl + "get pods -A --no-headers -o custom-columns=N:.metadata.name,U:.metadata.uid,R:.status.containerStatuses[*].restartCount | grep -v watcher | sort"
	before := first.must(pods)
	if plan := first.must(upgrade + " --plan"); !strings.Contains(plan, "watcher 1.0 -> 2.0") || strings.Contains(plan, "move to other nodes") {
		t.Errorf("plan:\n%s", plan)
	}
	t.Log(first.must(upgrade + " yes 2>&1"))
	first.must(kubectl + "--namespace kube-system rollout status daemonset/watcher --timeout=180s")
	if got := first.must(kubectl + "--namespace kube-system get pods --selector app=watcher -o jsonpath='{.items[*].spec.containers[0].image}'"); got != strings.Join([]string{image, image, image}, " ") {
		t.Errorf("the pods have %s", got)
	}
	first.pulled()
	if after := first.must(pods); after != before {
		t.Errorf("other pods were touched:\nbefore\n%s\nafter\n%s", before, after)
	}
	for _, n := range others {
		n.must("ctr --namespace k8s.io images ls -q | grep -qx " + image)
	}
}

// TestKilledUpgradeResumes kills the command that leads an upgrade, and the agent of a worker, at random moments. It cuts the power of
// the leading control plane, and of the worker in its own upgrade: the same command finishes.
func TestKilledUpgradeResumes(t *testing.T) {
	disks := []*isolation.Disk{isolation.NewDisk(t, 24<<30), isolation.NewDisk(t, 24<<30)}
	first, worker := outdated(t, host.Spec{Disk: disks[0].Path()}, host.Spec{Disk: disks[1].Path()})
	random := seeded(t)
	powerless := func(n node, of *isolation.Disk) {
		t.Helper()
		of.CutPower()
		if err := n.PowerCycle(t.Context(), of.Restore); err != nil {
			t.Fatal(err)
		}
		t.Logf("power lost on %s", n.Name())
	}
	const command = "cd /media/usb2 && exec bash -s airgap yes <upgrade.sh"
	finished := false
	for kill := 0; kill < 20 && !finished; kill++ {
		after := time.Duration(random.IntN(20_000)) * time.Millisecond
		if kill%2 == 1 {
			worker.must("systemctl kill --signal=KILL sealift-agent || :")
		}
		out, _ := first.run("systemd-run --quiet --wait --pipe --collect --property=RuntimeMaxSec=" + after.String() + " --property=KillMode=control-group --property=TimeoutStopSec=0 --property=KillSignal=SIGKILL bash -c " + shellword.Quote(command) + " 2>&1")
		finished = strings.Contains(out, "done: the cluster is upgraded")
		t.Logf("killed after %s:\n%s", after, out)
	}
	powerless(first, disks[0]) // the lease of its command lasts for five minutes more
	first.must("systemd-run --quiet --unit=lead bash -c " + shellword.Quote(command+" 2>&1"))
	first.must("for i in $(seq 1800); do journalctl --unit lead | grep -q 'node " + worker.Name() + ": kubernetes/\\|nothing to do\\|done: the cluster' && exit 0; systemctl is-active --quiet lead || break; sleep 0.5; done; journalctl --unit lead; exit 1")
	powerless(worker, disks[1])
	first.must("for i in $(seq 1800); do systemctl is-active --quiet lead || exit 0; sleep 1; done; journalctl --unit lead; exit 1")
	t.Log(first.must("journalctl --unit lead --output cat"))
	if out := first.must(upgrade + " yes 2>&1"); !strings.Contains(out, "done: the cluster is upgraded") && !strings.Contains(out, "nothing to do") {
		t.Errorf("in the end:\n%s", out)
	}
	first.runs("v"+current, 2)
	first.pulled()
	if out := first.must(upgrade + " yes 2>&1"); !strings.Contains(out, "nothing to do") {
		t.Errorf("once more:\n%s", out)
	}
	first.must("sealift status")
}
