//go:build grid

package airgap_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// ledger is an application with a volume: a program appends to a file, unless the hook before a snapshot has stopped it.
const ledger = `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: ledger}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 10Mi}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: ledger}
spec:
  strategy: {type: Recreate}
  selector: {matchLabels: {app: ledger}}
  template:
    metadata:
      labels: {app: ledger}
      annotations:
        pre.hook.backup.velero.io/command: '["/bin/sh", "-c", "touch /tmp/stop; until [ -e /tmp/stopped ]; do sleep 0.1; done; echo stopped >>/data/hooks"]'
        post.hook.backup.velero.io/command: '["/bin/sh", "-c", "rm /tmp/stop; echo resumed >>/data/hooks"]'
    spec:
      containers:
      - name: writer
        image: docker.io/library/busybox:1.35.0
        imagePullPolicy: IfNotPresent
        command:
        - sh
        - -c
        - 'echo $$ >>/data/starts; while :; do if [ -e /tmp/stop ]; then touch /tmp/stopped; else rm -f /tmp/stopped; date +%s >>/data/lines; fi; sleep 0.1; done'
        volumeMounts: [{name: data, mountPath: /data}]
      volumes:
      - name: data
        persistentVolumeClaim: {claimName: ledger}
`

const awaitLedger = kubectl + "rollout status --timeout 180s deployment/ledger"

// volumeOf returns the folder of the volume of the ledger.
func (n node) volumeOf() string {
	n.t.Helper()
	return strings.TrimSpace(n.must(kubectl + `get pv --output jsonpath='{range .items[*]}{.spec.local.path}{.spec.hostPath.path}{"\n"}{end}' | head -n 1`))
}

// TestSnapshotVolumesAreRestored saves a volume whose pod is quiesced, kills such a save, and restores the volume: alone, and on a new
// host with another name.
func TestSnapshotVolumesAreRestored(t *testing.T) {
	r := build(t, current, "debian-12")
	n := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}
	n.must(install)
	n.must(kubectl + "apply -f - <<'END'\n" + ledger + "END")
	n.must(awaitLedger)
	folder := n.volumeOf()
	n.must("for i in $(seq 60); do [ $(wc -l <" + folder + "/lines) -ge 20 ] && exit 0; sleep 1; done; exit 1")

	// a save that is killed while the pod is quiesced: the next one wakes the pod first
	n.must("truncate --size 8M " + folder + "/slow; mkfifo /var/tmp/never; sealift snapshot key --out /var/tmp/snapshots.key >/var/tmp/snapshots.pub")
	n.must("head -c 3G /dev/urandom >" + folder + "/large")
	n.run("sealift snapshot save --volumes --key /var/tmp/snapshots.pub --out /var/tmp/killed & save=$!; for i in $(seq 600); do grep -q stopped " + folder + "/hooks 2>/dev/null && break; sleep 0.1; done; kill -KILL $save")
	if hooks := n.must("cat " + folder + "/hooks"); hooks != "stopped\n" {
		t.Fatalf("the save was not killed while the pod was quiesced: %s", hooks)
	}
	n.must("rm " + folder + "/large")
	n.must("sealift snapshot save --key /var/tmp/snapshots.pub --out /var/tmp/without")
	if hooks := n.must("cat " + folder + "/hooks"); hooks != "stopped\nresumed\n" {
		t.Errorf("the next save did not wake the pod: %s", hooks)
	}
	n.must("before=$(wc -l <" + folder + "/lines); for i in $(seq 60); do [ $(wc -l <" + folder + "/lines) -gt $before ] && exit 0; sleep 1; done; exit 1")

	out := n.must("sealift snapshot save --volumes --key /var/tmp/snapshots.pub --out /var/tmp/snapshot")
	if !strings.Contains(out, "1 volume of ") || strings.Contains(out, "changed while it was read") {
		t.Errorf("saved:\n%s", out)
	}
	if hooks := n.must("cat " + folder + "/hooks"); hooks != "stopped\nresumed\nstopped\nresumed\n" {
		t.Errorf("the hooks ran as %s", hooks)
	}

	// only the volume
	n.must(kubectl + "scale deployment/ledger --replicas 0 && " + kubectl + "wait --for delete pod --selector app=ledger --timeout 120s")
	stays := n.must(restoreSnapshot + " --volumes --yes")
	if !strings.Contains(stays, "stays as it is") {
		t.Errorf("a volume with content:\n%s", stays)
	}
	n.must("find " + folder + " -mindepth 1 -delete")
	n.must(kubectl + "scale deployment/ledger --replicas 1 && for i in $(seq 60); do " + kubectl + "get pods -l app=ledger -o name | grep -q . && exit 0; sleep 1; done; exit 1")
	n.refuses(restoreSnapshot+" --volumes --yes", 1, "uses volume")
	n.must(kubectl + "scale deployment/ledger --replicas 0 && " + kubectl + "wait --for delete pod --selector app=ledger --timeout 120s")
	n.must("find " + folder + " -mindepth 1 -delete")
	n.must(restoreSnapshot + " --volumes --plan && [ -z \"$(ls -A " + folder + ")\" ]")
	began := time.Now()
	n.must(restoreSnapshot + " --volumes --yes")
	t.Logf("the volume is back in %s", time.Since(began).Round(time.Millisecond))
	saved := n.must("cd " + folder + " && find . -type f -printf '%P %m %U:%G %T@\\n' | sort && find . -type f -print0 | sort -z | xargs -0 sha256sum")
	if hooks := n.must("cat " + folder + "/hooks"); hooks != "stopped\nresumed\nstopped\n" {
		t.Errorf("of the snapshot: %s", hooks)
	}
	n.must(kubectl + "scale deployment/ledger --replicas 1 && " + awaitLedger)

	t.Run("new host", func(t *testing.T) {
		to := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}
		node{n.Host, t}.givesSnapshot(to)
		n.must("ip link set host0 down")
		out := to.must("/var/tmp/" + restoreSnapshot + ofItsCluster + " --bundle /media/usb/cluster.tar.gz --yes")
		if !strings.Contains(out, "write 1 volumes that this host lacks") {
			t.Errorf("the install says\n%s", out)
		}
		to.must(awaitLedger)
		if got := to.volumeOf(); got != folder {
			t.Errorf("the volume is in %s, was in %s", got, folder)
		}
		first, _, _ := strings.Cut(saved, "\n")
		t.Logf("on %s: %s", to.Name(), first)
		if starts := to.must("wc -l <" + folder + "/starts"); starts != "2\n" {
			t.Errorf("the program began %s times with this volume; once before and once after", starts)
		}
		to.must(kubectl + "get pvc ledger --output jsonpath={.status.phase} | grep -x Bound")
		to.pulled()
	})
}
