//go:build grid

package airgap_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// judged is a pod on a node. Only that with the name web is reached by name and port.
const judged = `apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: %[1]s}}
spec:
  nodeName: %s
  terminationGracePeriodSeconds: 0
  containers:
  - name: busybox
    image: docker.io/library/busybox:1.35.0
    imagePullPolicy: IfNotPresent
    command: [sh, -c, 'echo reached >/tmp/index.html && exec httpd -f -p 8080 -h /tmp']
---
`

// policies let only the friend reach the web, and the prisoner reach nothing.
const policies = `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress: [{from: [{podSelector: {matchLabels: {app: friend}}}]}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: prisoner}
spec:
  podSelector: {matchLabels: {app: prisoner}}
  policyTypes: [Egress]
`

// TestNetworkPoliciesHoldBetweenNodes tries connections between pods of two nodes, to the API and to a host, without policies and with them.
// Then the page of the add-on is followed, to its removal, after which no node has a table.
func TestNetworkPoliciesHoldBetweenNodes(t *testing.T) {
	r, without := buildWith(t, "kube-network-policies"), build(t, current, "debian-12")
	first, worker := node{lab.Host(t, host.Spec{USB: []string{r.usb, without.usb}}), t}, node{lab.Host(t, host.Spec{}), t}
	first.must(install)
	worker.must(first.joinCommand(""))
	first.must(kubectl + "wait node/" + worker.Name() + " --for condition=Ready --timeout 180s")
	first.must(kubectl + "--namespace kube-system rollout status daemonset/kube-network-policies --timeout 180s")
	pods := ""
	for name, on := range map[string]node{"web": worker, "friend": first, "stranger": first, "neighbour": worker, "prisoner": worker} {
		pods += fmt.Sprintf(judged, name, on.Name())
	}
	first.must(kubectl + "apply -f - <<'END'\n" + pods + "END\n" + kubectl + "wait pods --all --for condition=Ready --timeout 180s")
	web := "http://" + strings.TrimSpace(first.must(kubectl+"get pod web -o jsonpath='{.status.podIP}'")) + ":8080/"
	from := func(pod, command string) string { return kubectl + "exec " + pod + " -- timeout 5 " + command }
	get := func(pod string) string { return from(pod, "wget -q -O - "+web) }
	api, kubelet := "nc -w 3 10.96.0.1 443 -e true", "nc -w 3 "+first.Address().String()+" 10250 -e true"

	for _, pod := range []string{"friend", "stranger", "neighbour"} {
		first.must(get(pod))
	}
	first.must(from("prisoner", api) + " && " + from("prisoner", kubelet))
	first.must(kubectl + "apply -f - <<'END'\n" + policies + "END")
	first.within(60, "! "+get("stranger")+" && ! "+get("neighbour")+" && ! "+from("prisoner", api)+" && ! "+from("prisoner", kubelet))
	first.must(get("friend") + " && " + from("stranger", api))
	worker.must("timeout 5 bash -c ': </dev/tcp/" + strings.TrimSuffix(strings.TrimPrefix(web, "http://"), ":8080/") + "/8080'") // as a probe of the kubelet

	first.pulled()
	if out := first.must(install); !strings.Contains(out, "nothing to do") {
		t.Errorf("second run:\n%s", out)
	}
	first.followsAddOn("addons/kube-network-policies.md", "")
	first.leaves("kube-network-policies")
	first.within(60, get("stranger")+" && "+from("prisoner", api))
	tables := first.must("for pod in $(" + kubectl + "--namespace kube-system get pods --selector k8s-app=kube-proxy -o name); do " + kubectl + "--namespace kube-system exec $pod -- nft list tables; done")
	if strings.Contains(tables, "kube-network-policies") {
		t.Errorf("tables that are left:\n%s", tables)
	}
}
