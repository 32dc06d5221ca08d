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

// TestClusterPassesBenchmark installs with cisCompliance. What is left has a reason that no setting changes.
func TestClusterPassesBenchmark(t *testing.T) {
	r := build(t, current, "debian-12")
	n, worker := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}, node{lab.Host(t, host.Spec{}), t}
	n.must(install + " kubernetes-cis-compliance")
	worker.must(n.joinCommand(""))
	n.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s")
	if left := hostChecks(n.notMet()); !slices.Equal(left, []string{"1.1.9", "1.1.12", "1.2.1", "1.2.9", "1.2.11", "3.1.1"}) {
		t.Errorf("not met: %v", left)
	}
	if left := worker.notMet(); len(left) > 0 {
		t.Errorf("not met on a worker: %v", left)
	}
	// the API server verifies kubelets now, and writes audit logs
	n.must(kubectl + "--namespace kube-system logs --tail=1 --selector=k8s-app=kube-proxy --prefix")
	n.must("grep -q '\"verb\":\"create\"' /var/log/apiserver/k8s-audit.log && ! grep -q '\"resource\":\"leases\"' /var/log/apiserver/k8s-audit.log")
	n.must("sealift status")
}
