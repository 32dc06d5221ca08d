//go:build grid

package airgap_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// TestHostsInstallFromLeanBundle installs from a bundle that is less than 0.7 of the whole one: programs and layers are made of similar ones. A
// worker joins with them, and an image with such a layer starts again after its pod was deleted and both services were restarted.
func TestHostsInstallFromLeanBundle(t *testing.T) {
	r := build(t, current, "debian-12")
	usb := r.part(t, "lean", func(dir string) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		r.run(t, "bundle", "-f", filepath.Join(r.dir(), "installer.yaml"), "--store", r.packages, "--out", filepath.Join(dir, "cluster.tar.gz"), "--lean", "--cache", r.cache)
		shell(t, dir, "tar xzf cluster.tar.gz --occurrence=1 install.sh")
	})
	lean, whole := bundleSize(t, usb), bundleSize(t, r.usb)
	if t.Logf("lean %d bytes, whole %d", lean, whole); lean*10 > whole*7 {
		t.Errorf("the lean bundle has %d bytes, the whole one %d", lean, whole)
	}
	first := node{lab.Host(t, host.Spec{USB: []string{usb}}), t}
	printed := workerCommand(t, first.must(install))
	secondRun(first)
	worker := node{lab.Host(t, host.Spec{}), t}
	worker.must(printed)
	first.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s")
	for _, n := range []node{first, worker} {
		n.must("systemctl restart containerd kubelet; left=$(ls -A /var/tmp | grep -v systemd-private || :); [ -z \"$left\" ] || { echo \"$left\"; exit 1; }")
	}
	first.must(kubectl + "--namespace kube-system delete pods --selector k8s-app=kube-proxy && " + kubectl + "--namespace kube-system rollout status daemonset/kube-proxy --timeout=180s")
	cluster(first)
}

// bundleSize returns the bytes of a bundle.
func bundleSize(t *testing.T, usb string) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(usb, "cluster.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
