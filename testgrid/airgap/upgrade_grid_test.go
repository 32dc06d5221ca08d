//go:build grid

package airgap_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/testgrid/lab/host"
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

// clients asks a Service and the API five times a second each, and notes what failed twice in a row.
const clients = `
ask() { name=$1; shift; while :; do "$@" >/dev/null 2>&1 || { sleep 0.5; "$@" >/dev/null 2>&1 || echo "$name failed at $(date +%T.%N)" >>/var/tmp/failures; }; echo >>/var/tmp/asked-$name; sleep 0.2; done; }
ask service timeout 3 bash -c 'exec 3<>"/dev/tcp/$0/80" && printf "GET / HTTP/1.0\\r\\n\\r\\n" >&3 && grep -q here <&3' "$1" &
ask api kubectl --kubeconfig /etc/kubernetes/kubelet.conf --request-timeout=3s get --raw /version &
wait
`

// TestUpgradeOfThreeControlPlanes upgrades three control planes and a worker while clients ask a Service and the API.
func TestUpgradeOfThreeControlPlanes(t *testing.T) {
	older, newer := build(t, "1.35.4", "debian-12"), build(t, "1.36.3", "debian-12")
	shell(t, newer.usb, "tar xzf cluster.tar.gz --occurrence=1 upgrade.sh")
	first := node{host.ForTest(t, host.Spec{USB: []string{older.usb, newer.usb}}), t}
	first.must(install)
	var others []node
	for _, flags := range []string{controlPlane, controlPlane, ""} {
		n := node{host.ForTest(t, host.Spec{}), t}
		n.must(first.joinCommand(flags))
		others = append(others, n)
	}
	worker := others[2]
	first.hasMembers(3)
	first.hasNodes(4)
	if err := first.Exec(t.Context(), host.Command{Args: []string{"bash", "-c", kubectl + "apply -f -"}, Stdin: bytes.NewReader([]byte(asked))}); err != nil {
		t.Fatal(err)
	}
	first.must(kubectl + "rollout status deployment/asked --timeout=180s")
	service := first.must(kubectl + "get service asked -o jsonpath={.spec.clusterIP}")
	worker.must("systemd-run --quiet --unit=clients bash -c " + quoted(clients) + " clients " + service)

	t.Log(first.must(upgrade + " yes 2>&1"))

	worker.must("systemctl stop clients; [ $(wc -l </var/tmp/asked-service) -gt 100 ]")
	if failures, _ := worker.run("cat /var/tmp/failures"); !strings.Contains(failures, "No such file") {
		t.Errorf("requests failed twice in a row:\n%s", failures)
	}
	t.Log(worker.must("wc -l /var/tmp/asked-*"))
	t.Log(first.must("sealift upgrade status"))
	if got := first.must(kubectl + "get nodes --no-headers"); strings.Count(got, "v1.36.3") != 4 || strings.Count(got, " Ready ") != 4 {
		t.Errorf("nodes:\n%s", got)
	}
	first.pulled()
	others[0].must("sealift status")
}

// TestKilledUpgradeGoesOn kills the command that leads an upgrade, and the agent of a worker, at random moments, and takes the
// worker's power: the same command finishes.
func TestKilledUpgradeGoesOn(t *testing.T) {
	older, newer := build(t, "1.35.4", "debian-12"), build(t, "1.36.3", "debian-12")
	shell(t, newer.usb, "tar xzf cluster.tar.gz --occurrence=1 upgrade.sh")
	first := node{host.ForTest(t, host.Spec{USB: []string{older.usb, newer.usb}}), t}
	worker := node{host.ForTest(t, host.Spec{}), t}
	first.must(install)
	worker.must(first.joinCommand(""))
	first.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // moments of a test
	const command = "cd /media/usb2 && exec bash -s airgap yes <upgrade.sh"
	finished := false
	for kill := 0; kill < 20 && !finished; kill++ {
		after := time.Duration(random.IntN(20_000)) * time.Millisecond
		if kill%2 == 1 {
			worker.must("systemctl kill --signal=KILL sealift-agent || :")
		}
		out, _ := first.run("systemd-run --quiet --wait --pipe --collect --property=RuntimeMaxSec=" + after.String() + " --property=KillMode=control-group --property=TimeoutStopSec=0 --property=KillSignal=SIGKILL bash -c " + quoted(command) + " 2>&1")
		finished = strings.Contains(out, "done: the cluster is upgraded")
		t.Logf("killed after %s:\n%s", after, out)
	}
	if out := first.must(upgrade + " yes 2>&1"); !strings.Contains(out, "done: the cluster is upgraded") && !strings.Contains(out, "nothing to do") {
		t.Errorf("in the end:\n%s", out)
	}
	if got := first.must(kubectl + "get nodes --no-headers"); strings.Count(got, "v1.36.3") != 2 || strings.Count(got, " Ready ") != 2 || strings.Contains(got, "SchedulingDisabled") {
		t.Errorf("nodes:\n%s", got)
	}
	first.pulled()
	if out := first.must(upgrade + " yes 2>&1"); !strings.Contains(out, "nothing to do") {
		t.Errorf("once more:\n%s", out)
	}
	first.must("sealift status")
}
