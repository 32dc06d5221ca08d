//go:build grid

package airgap_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/docexamples"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// TestGatekeeperRefusesAndReports follows the page of the add-on: a constraint refuses a pod, and reports another that was there before. In
// between, no pod of Gatekeeper answers, and requests that it would check are refused. The control plane, the kubelets and a joining node
// must come back nevertheless.
func TestGatekeeperRefusesAndReports(t *testing.T) {
	r, without := buildWith(t, "gatekeeper"), build(t, current, "debian-12")
	first, worker := node{lab.Host(t, host.Spec{USB: []string{r.usb, without.usb}}), t}, node{lab.Host(t, host.Spec{}), t}
	first.writesSite("gatekeeper: {replicas: 0}")
	first.refuses(install+site, 3, "gatekeeper.replicas must be a number from 1 to 99")
	first.writesSite("gatekeeper: {failurePolicy: Never}")
	first.refuses(install+site, 1, "failurePolicy")
	first.writesSite("gatekeeper: {failurePolicy: Fail}")
	began := time.Now()
	first.must(install + site)
	t.Logf("the node took %s", time.Since(began).Round(time.Second))
	const deployment = "--namespace gatekeeper-system deployment/gatekeeper-controller-manager "
	first.must(kubectl + "rollout status --timeout 180s " + deployment)

	first.must(kubectl + "scale --replicas 0 " + deployment)
	first.within(120, kubectl+"create configmap refused --dry-run=server 2>&1 | grep 'failed calling webhook'")
	dead := time.Now()
	first.healsWithoutGatekeeper(worker)
	if time.Since(dead) < time.Minute {
		time.Sleep(time.Minute - time.Since(dead)) // a node whose lease is not renewed is seen after 40 s
	}
	first.must(kubectl + "wait nodes --all --for condition=Ready --timeout 180s")
	first.must(kubectl + "create configmap refused --dry-run=server 2>&1 | grep 'failed calling webhook'")
	t.Logf("healed for %s without Gatekeeper", time.Since(dead).Round(time.Second))
	first.must(kubectl + "scale --replicas 1 " + deployment + "&& " + kubectl + "rollout status --timeout 180s " + deployment)
	first.within(120, kubectl+"create configmap allowed --dry-run=server")

	first.pulled()
	if out := first.must(install + site); !strings.Contains(out, "nothing to do") {
		t.Errorf("second run:\n%s", out)
	}
	for _, name := range []string{"template.yaml", "constraint.yaml"} {
		first.must("cat >/root/" + name + " <<'END'\n" + docexamples.File(t, filepath.Join(repository, "docs/addons/gatekeeper.md"), name) + "END")
	}
	first.followsAddOn("addons/gatekeeper.md", "")
	first.leaves("gatekeeper")
}

// healsWithoutGatekeeper replaces pods of the control plane and of the network, kills the API server, restarts the kubelet, joins a node and
// lets its kubelet stop.
func (n node) healsWithoutGatekeeper(worker node) {
	n.t.Helper()
	n.must(kubectl + "--namespace kube-system delete pods --selector 'k8s-app in (kube-dns,kube-proxy)' && " + kubectl + "--namespace kube-flannel delete pods --all")
	n.must(kubectl + "--namespace kube-system rollout status deployment/coredns --timeout 180s && " + kubectl + "--namespace kube-system rollout status daemonset/kube-proxy --timeout 180s")
	n.kills("kube-apiserver")
	n.within(180, kubectl+"get --raw /readyz")
	n.must("systemctl restart kubelet")
	worker.must(n.joinCommand(""))
	n.must(kubectl + "wait node/" + worker.Name() + " --for condition=Ready --timeout 180s")
	worker.must("systemctl stop kubelet")
	n.within(180, kubectl+"get node "+worker.Name()+" -o jsonpath='{.spec.taints[*].key}' | grep node.kubernetes.io/unreachable")
	worker.must("systemctl start kubelet")
	n.must(kubectl + "wait node/" + worker.Name() + " --for condition=Ready --timeout 180s")
}

// moved is a Deployment of four pods that leave a lost node at once.
const moved = `apiVersion: apps/v1
kind: Deployment
metadata: {name: moved}
spec:
  replicas: 4
  selector: {matchLabels: {app: moved}}
  template:
    metadata: {labels: {app: moved}}
    spec:
      terminationGracePeriodSeconds: 0
      tolerations:
      - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 1}
      containers:
      - {name: pause, image: docker.io/library/busybox:1.35.0, imagePullPolicy: IfNotPresent, command: [sleep, "36000"]}
`

// TestPodsMoveToReturnedNode uses a node that is cut off. Its pods move to the other node, and half of all move back when it has returned.
func TestPodsMoveToReturnedNode(t *testing.T) {
	r, without := buildWith(t, "descheduler"), build(t, current, "debian-12")
	first, worker := node{lab.Host(t, host.Spec{USB: []string{r.usb, without.usb}}), t}, node{lab.Host(t, host.Spec{}), t}
	first.writesSite("descheduler: {interval: often}")
	first.refuses(install+site, 3, "descheduler.interval must be a duration such as 90s, 5m or 1h")
	first.writesSite("descheduler: {interval: 10s}")
	worker.must(workerCommand(t, first.must(install+site)))
	first.must(kubectl + "wait nodes --all --for condition=Ready --timeout 180s")
	first.must(kubectl + "--namespace kube-system rollout status deployment/descheduler --timeout 180s")
	first.must(kubectl + "apply -f - <<'END'\n" + moved + "END\n" + kubectl + "rollout status deployment/moved --timeout 180s")

	// all Running pods of the deployment on a node that are not being deleted
	on := func(of node) string {
		return kubectl + "get pods --selector app=moved --field-selector spec.nodeName=" + of.Name() + `,status.phase=Running -o jsonpath='{range .items[*]}{.metadata.name}{" "}{.metadata.deletionTimestamp}{"\n"}{end}' | awk 'NF == 1' | wc -l`
	}
	worker.must("ip link set host0 down")
	first.within(300, `[ "$(`+on(first)+`)" = 4 ]`)
	worker.must("ip link set host0 up")
	first.must(kubectl + "wait node/" + worker.Name() + " --for condition=Ready --timeout 180s")
	back := time.Now()
	first.within(300, `[ "$(`+on(worker)+`)" = 2 ] && [ "$(`+on(first)+`)" = 2 ]`)
	t.Logf("two of four pods are on %s again %s after it came back", worker.Name(), time.Since(back).Round(time.Second))
	t.Logf("%s", first.must(kubectl+"get events --field-selector reason=RemoveDuplicates; "+kubectl+"get pods --selector app=moved -o wide"))
	first.pulled()
	if out := first.must(install + site); !strings.Contains(out, "nothing to do") {
		t.Errorf("second run:\n%s", out)
	}
	first.must(kubectl + "delete deployment/moved")
	first.followsAddOn("addons/descheduler.md", "")
	first.leaves("descheduler")
}
