//go:build grid

package airgap_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// serving is a pod on a node that serves the name of its processor.
const serving = `apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  nodeName: %s
  terminationGracePeriodSeconds: 0
  containers:
  - name: web
    image: %s
    imagePullPolicy: IfNotPresent
    command: [sh, -c, 'mkdir /tmp/www && uname -m >/tmp/www/index.html && exec busybox httpd -f -p 8080 -h /tmp/www']
---
`

// TestARMWorkerJoinsAndIsUpgraded uses a control plane of amd64 and a worker of arm64, an emulated machine that has nothing but the join
// command. Both come from one bundle, and so does the upgrade. Pods of both reach each other.
func TestARMWorkerJoinsAndIsUpgraded(t *testing.T) {
	newest := releases.Current("kubernetes")
	parts := currentOf("containerd", "flannel")
	r, next := forBoth(t, append(parts, newest.Before())...), forBoth(t, append(parts, newest)...)
	first := node{lab.Host(t, host.Spec{USB: []string{r.usb, next.usb}}), t}
	worker := node{lab.Host(t, host.Spec{OS: host.DebianARM, Memory: 2 << 30, Machine: new(host.MachineSpec)}), t}
	first.must(install)
	t.Log(worker.must(first.joinCommand("")))
	first.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=900s")
	first.must(kubectl + "--namespace kube-flannel rollout status daemonset --timeout=900s")
	pods := ""
	image := strings.TrimSpace(first.must(kubectl + "--namespace kube-flannel get daemonset -o jsonpath='{.items[0].spec.template.spec.containers[0].image}'"))
	processors := map[string]node{"x86_64": first, "aarch64": worker}
	for processor, on := range processors {
		pods += fmt.Sprintf(serving, strings.ReplaceAll(processor, "_", "-"), on.Name(), image)
	}
	first.must(kubectl + "apply -f - <<'END'\n" + pods + "END\n" + kubectl + "wait pods --all --for condition=Ready --timeout 600s")
	first.serveEachOther(processors)
	first.pulled()

	t.Log(first.must("sealift upgrade --yes --bundle /media/usb2/cluster.tar.gz 2>&1"))
	versions := first.must(kubectl + "get nodes --no-headers -o custom-columns=V:.status.nodeInfo.kubeletVersion,A:.status.nodeInfo.architecture")
	for _, want := range []string{"v" + newest.Version + "   amd64", "v" + newest.Version + "   arm64"} {
		if !strings.Contains(versions, want) {
			t.Errorf("nodes after the upgrade:\n%s", versions)
		}
	}
	first.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=900s")
	if out := worker.must("kubelet --version; uname -m"); out != "Kubernetes v"+newest.Version+"\naarch64\n" {
		t.Errorf("the worker has %s", out)
	}
	t.Log(worker.must("sealift reset --yes 2>&1"))
}

// serveEachOther reads from each pod what the others say of their processors.
func (n node) serveEachOther(processors map[string]node) {
	n.t.Helper()
	for processor := range processors {
		address := strings.TrimSpace(n.must(kubectl + "get pod " + strings.ReplaceAll(processor, "_", "-") + " -o jsonpath='{.status.podIP}'"))
		for from := range processors {
			n.within(120, kubectl+"exec "+strings.ReplaceAll(from, "_", "-")+" -- busybox wget -q -O - http://"+address+":8080/ | grep -x "+processor)
		}
	}
}
