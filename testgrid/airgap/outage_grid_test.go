//go:build grid

package airgap_test

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// TestInstallRestartsStoppedAPI kills an install, and keeps etcd from starting until the kubelet tries only every few minutes.
// When the cause is gone, the next install does not wait for that.
func TestInstallRestartsStoppedAPI(t *testing.T) {
	r := build(t, current, "debian-12")
	n := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}
	n.interrupt(interruption{command: fromUSB, signal: "KILL", step: "flannel/install", record: "finished"})
	n.must("mv /var/lib/etcd/member /var/lib/etcd/away && touch /var/lib/etcd/member")
	n.must(`for p in /proc/[0-9]*; do case "$(cat $p/comm 2>/dev/null)" in etcd | kube-apiserver) kill ${p#/proc/} ;; esac; done`)
	n.must("sleep 200") // started again after 10, 20, 40 and 80 seconds, and then after 160
	n.must("rm /var/lib/etcd/member && mv /var/lib/etcd/away /var/lib/etcd/member")
	n.must(install)
	log := n.must("cat $(ls -t /var/log/sealift/install-*.log | head -n 1)")
	for _, want := range []string{"waiting for the Kubernetes API at ", "restarting the kubelet"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not say %q:\n%s", want, log)
		}
	}
	cluster(n)
}
