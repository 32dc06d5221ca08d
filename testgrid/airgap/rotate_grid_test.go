//go:build grid

package airgap_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// writer creates a numbered ConfigMap every second, and records each number that the API server has accepted. A failed request is
// retried, as clients do.
const writer = `n=0
while ! test -e /tmp/stop; do
  n=$((n + 1))
  until kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout=5s create configmap written-$n >/tmp/said 2>&1 || grep -q 'already exists' /tmp/said; do
    { date +%T; cat /tmp/said; } >>/tmp/failures
    sleep 0.2
  done
  echo $n >>/tmp/taken
  sleep 1
done
`

// TestCAsAreRotatedDuringWrites replaces all CAs and the service-account key of a cluster of three nodes. A client writes every
// second in the meantime. Both parts of the rotation are killed and resumed.
func TestCAsAreRotatedDuringWrites(t *testing.T) {
	r := build(t, current, "debian-12")
	first := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}
	first.must(install)
	all := []node{first}
	for _, flags := range rotated {
		n := node{lab.Host(t, host.Spec{}), t}
		n.must(first.joinCommand(flags))
		all = append(all, n)
	}
	first.hasNodes(len(all))
	first.must(kubectl + "create serviceaccount robot && " + kubectl + "apply -f - <<'EOF'\n" +
		"{apiVersion: v1, kind: Secret, metadata: {name: robot, annotations: {kubernetes.io/service-account.name: robot}}, type: kubernetes.io/service-account-token}\nEOF")
	old := first.must("cp /etc/kubernetes/admin.conf /root/old.conf; sha256sum </etc/kubernetes/pki/ca.crt")
	token := first.must("for i in $(seq 30); do " + kubectl + "get secret robot -o jsonpath={.data.token} | base64 --decode | grep . && break; sleep 1; done | tr -d '\n'")
	first.must("systemd-run --quiet --unit=writer bash -c " + shellword.Quote(writer))

	first.killedAfter(25, "sealift certs rotate-ca --yes --only cluster,etcd,front-proxy,service-accounts")
	t.Log(first.must("time sealift certs rotate-ca --yes 2>&1"))
	t.Log(first.must("sealift certs"))
	first.must("kubectl --kubeconfig /root/old.conf get nodes")
	first.refuses("sealift certs rotate-ca --finish --yes", 1, "DaemonSet kube-system/kube-proxy")
	first.killedAfter(40, "sealift certs rotate-ca --finish --restart-workloads --yes")
	t.Log(first.must("time sealift certs rotate-ca --finish --restart-workloads --yes 2>&1"))
	first.must("touch /tmp/stop; while systemctl is-active --quiet writer; do sleep 0.2; done")

	taken := strings.Fields(first.must("cat /tmp/taken"))
	there := map[string]bool{}
	for name := range strings.FieldsSeq(first.must(kubectl + "get configmaps -o name | grep /written-")) {
		there[strings.TrimPrefix(name, "configmap/written-")] = true
	}
	lost := 0
	for _, n := range taken {
		if !there[n] {
			lost++
		}
	}
	t.Logf("%d writes, %d lost; requests that failed and were repeated:\n%s", len(taken), lost, first.must("cat /tmp/failures 2>/dev/null; true"))
	if last, err := strconv.Atoi(taken[len(taken)-1]); err != nil || lost > 0 || last != len(taken) {
		t.Errorf("of %d writes, up to %s, %d are lost: %v", len(taken), taken[len(taken)-1], lost, err)
	}

	first.hasNodes(len(all))
	for _, n := range all {
		n.must("! test -e /etc/kubernetes/pki/rotation.json && ! test -e /etc/kubernetes/pki/rotation-signer.crt")
		if n.must("sha256sum </etc/kubernetes/pki/ca.crt") == old || n.must("grep --count BEGIN /etc/kubernetes/pki/ca.crt") != "1\n" {
			t.Errorf("%s trusts the old CA", n.Name())
		}
		n.must("kubectl --kubeconfig /etc/kubernetes/kubelet.conf get node " + n.Name())
	}
	first.refuses("kubectl --kubeconfig /root/old.conf get nodes", 1, "certificate signed by unknown authority")
	ask := "kubectl --kubeconfig /dev/null --certificate-authority /etc/kubernetes/pki/ca.crt --server " +
		first.must(kubectl+"config view -o jsonpath={.clusters[0].cluster.server}") + " auth whoami --token "
	first.must(ask + "$(" + kubectl + "create token robot)")
	first.refuses(ask+token, 1, "must be logged in")
	for i, n := range all {
		runsPod(first, n, i)
		first.must(fmt.Sprintf(kubectl+"logs after-%d; ", i) + kubectl + "get --raw /readyz")
	}
	late := node{lab.Host(t, host.Spec{}), t}
	late.must(first.joinCommand(""))
	first.hasNodes(len(all) + 1)
}

// rotated are the flags with which the other nodes of the test join.
var rotated = []string{controlPlane, ""}

// killedAfter runs a command and kills it after some seconds.
func (n node) killedAfter(seconds int, command string) {
	n.t.Helper()
	n.must(fmt.Sprintf("timeout --signal=KILL %d %s >/tmp/killed 2>&1; test $? = 137 || { cat /tmp/killed; false; }", seconds, command))
}
