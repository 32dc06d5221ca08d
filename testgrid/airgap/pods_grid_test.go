//go:build grid

package airgap_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/report"
)

// podTests are tests for machines that are pods.
const podTests = `
- name: in a pod
  cpu: 1
  memory: 1Gi
  installerSpec: INSTALLER
  expect: [{nodesReady: 1}, {podsRunning: all}]
- name: without a way out
  airgap: true
  cpu: 1
  memory: 1Gi
  installerSpec: INSTALLER
`

// TestPrivilegedPodWorksAsMachine installs a cluster in a pod of a cluster. Flannel enforces no NetworkPolicies, so a test that must have
// no way out does not run, and the report has the reason.
func TestPrivilegedPodWorksAsMachine(t *testing.T) {
	r := build(t, current, "debian-12")
	compile(t, r.dir(), "./cmd/sealift-testgrid")
	dir := t.TempDir()
	shell(t, dir, r.dir()+"/sealift-testgrid lab image debian-12 --name example.org/host:1 --out host.tar")
	place(t, filepath.Join(dir, "tests.yaml"), []byte(strings.ReplaceAll(podTests, "INSTALLER", "{kubernetes: {version: "+current+"}, containerd: {version: "+currentRuntime+"}, flannel: {version: "+currentNetwork+"}}")))
	place(t, filepath.Join(dir, "hosts.yaml"), []byte("systems: {debian-12: {kubernetes: {image: 'example.org/host:1', kubeconfig: /etc/kubernetes/admin.conf}}}\n"))
	n := node{lab.Host(t, host.Spec{USB: []string{r.usb, r.dir(), dir}}), t}
	n.must(install)
	n.must(kubectl + "--namespace kube-system scale deployment metrics-server --replicas=0") // a machine requests a processor
	n.must(kubectl + "--namespace kube-system scale deployment coredns --replicas=1")
	n.must("ctr --namespace k8s.io images import /media/usb3/host.tar")
	n.must("for i in $(seq 60); do " + kubectl + "get serviceaccount default && break; sleep 1; done")
	t.Log(n.must("cd /root && HOME=/root /media/usb2/sealift-testgrid run /media/usb3/tests.yaml --hosts /media/usb3/hosts.yaml --store /media/usb2/packages --out report -o json 2>&1 >list.json"))
	var list gridReport
	if out := n.must("cat /root/list.json"); json.Unmarshal([]byte(out), &list) != nil {
		t.Fatal(out)
	}
	if want := (report.Counts{Passed: 1, Skipped: 1}); list.Counts != want {
		t.Errorf("%s, want %s", list.Counts, want)
	}
	if reason := list.Cells[1].Reason(); !strings.Contains(reason, "does not enforce NetworkPolicies") {
		t.Errorf("the airgap test was skipped because: %s", reason)
	}
	if left := n.must(kubectl + "get pods,networkpolicies -o name 2>/dev/null"); left != "" {
		t.Errorf("left: %s", left)
	}
}
