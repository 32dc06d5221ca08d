//go:build grid

package airgap_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// compared is the output of 'sealift preflight cis'.
type compared struct {
	Results []struct{ ID, Title, Status, Found, Reason string }
}

// notMet returns the numbers of the failed checks, and logs a summary of the report.
func (n node) notMet() (ids []string) {
	n.t.Helper()
	out, code := n.run("sealift preflight cis -o json 2>/dev/null")
	var report compared
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		n.t.Fatalf("%v\n%s", err, out)
	}
	counts := map[string]int{}
	for _, r := range report.Results {
		counts[r.Status]++
		if r.Status == "not met" {
			ids = append(ids, r.ID)
			n.t.Logf("%s %s: %s: %s", r.ID, r.Title, r.Found, r.Reason)
		}
		if r.Status != "met" && r.Reason == "" {
			n.t.Errorf("%s is not explained", r.ID)
		}
	}
	n.t.Logf("%s: %v", n.Name(), counts)
	if want := map[bool]int{true: 0, false: 3}[len(ids) == 0]; code != want {
		n.t.Errorf("exit code %d, not %d", code, want)
	}
	return ids
}

// hostChecks are those of sections 1 to 4, without policies of the cluster.
func hostChecks(ids []string) []string {
	return slices.DeleteFunc(ids, func(id string) bool { return strings.HasPrefix(id, "5.") })
}

// hardened installs a cluster of two hosts with settings of the Installer, and compares it with the benchmark. left are the checks of the
// control plane that are not met.
func hardened(t *testing.T, settings string, left ...string) (first, worker node) {
	t.Helper()
	r := build(t, current, "debian-12")
	first, worker = node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}, node{lab.Host(t, host.Spec{}), t}
	first.must(install + " " + settings)
	worker.must(first.joinCommand(""))
	first.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s")
	if got := hostChecks(first.notMet()); !slices.Equal(got, left) {
		t.Errorf("not met: %v", got)
	}
	if got := worker.notMet(); len(got) > 0 {
		t.Errorf("not met on a worker: %v", got)
	}
	// the API server verifies kubelets now, and writes audit logs
	first.must(kubectl + "--namespace kube-system logs --tail=1 --selector=k8s-app=kube-proxy --prefix")
	first.must("grep -q '\"verb\":\"create\"' /var/log/apiserver/k8s-audit.log && ! grep -q '\"resource\":\"leases\"' /var/log/apiserver/k8s-audit.log")
	first.must("sealift status")
	return first, worker
}

// TestClusterPassesBenchmark installs with cisCompliance. What is left has a reason that no setting changes.
func TestClusterPassesBenchmark(t *testing.T) {
	hardened(t, "kubernetes-cis-compliance", "1.1.9", "1.1.12", "1.2.1", "1.2.9", "1.2.11", "3.1.1")
}

// TestStrictClusterPassesBenchmark installs with hardening: strict, runs an application with a volume, and restarts a host, whose kubelet
// starts only with the kernel's settings that it wants.
func TestStrictClusterPassesBenchmark(t *testing.T) {
	first, worker := hardened(t, "kubernetes.hardening=strict", "1.1.9", "1.1.12", "1.2.1", "1.2.11", "3.1.1")
	first.runsApp()
	first.refuses(kubectl+`run folder --image=docker.io/library/busybox:1.35.0 --overrides='{"spec":{"volumes":[{"name":"etc","hostPath":{"path":"/etc"}}]}}' 2>&1`, 1, `violates PodSecurity "baseline`)
	first.must(kubectl + `get --raw /api/v1/nodes/` + worker.Name() + `/proxy/configz | grep -q '"protectKernelDefaults":true'`)
	if err := worker.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	worker.must("for i in $(seq 120); do systemctl is-active kubelet && exit 0; sleep 1; done; journalctl --no-pager -n 50 -u kubelet; exit 1")
	first.must("sleep 60; " + kubectl + "wait --for=condition=Ready nodes --all --timeout=180s")
	first.pulled()
}
