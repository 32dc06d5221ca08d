//go:build grid

package airgap_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// lookAt prints what preflight finds, and does not fail for it.
const lookAt = "/tmp/tool/bin/sealift preflight --bundle /media/usb/cluster.tar.gz 2>&1 || true"

// TestRunningDockerAndFirewalldStay makes a cluster of two hosts on which Debian's Docker and firewalld run. Preflight names both
// and Docker's containerd, the ports are opened, pods of both nodes reach each other, and a reset leaves both running.
func TestRunningDockerAndFirewalldStay(t *testing.T) {
	r, packages := build(t, current, "debian-12"), t.TempDir()
	spec := host.Spec{USB: []string{r.usb, packages}}
	first, worker := node{lab.Host(t, spec), t}, node{lab.Host(t, spec), t}
	fetchPackages(t, packages, first.must("cat /var/lib/dpkg/status"), "docker.io", "firewalld")
	for _, n := range []node{first, worker} {
		n.must("export DEBIAN_FRONTEND=noninteractive; apt-get -o APT::Sandbox::User=root --yes --no-install-recommends install /media/usb2/*.deb 2>&1 && systemctl enable --now docker firewalld && systemctl is-active docker firewalld")
	}
	first.must(unpackSealift + "; " + lookAt) // the first one starts systemd's own services
	before := first.must(inventory)
	found := first.must(lookAt)
	t.Log(found)
	for _, want := range []string{"Docker runs on this host", "containerd is already installed", "firewalld; the install allows the cluster's traffic"} {
		if !strings.Contains(found, want) {
			t.Errorf("preflight does not say %q", want)
		}
	}
	if after := first.must(inventory); after != before {
		t.Errorf("looking changed the host:\nbefore\n%s\nafter\n%s", before, after)
	}
	t.Log(first.must(install + " 2>&1"))
	t.Log(worker.must(first.joinCommand("") + " 2>&1"))
	first.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s")
	first.apply(asked)
	first.must(kubectl + "rollout status deployment/asked --timeout=180s")
	address := first.must(kubectl + "get service asked -o jsonpath={.spec.clusterIP}")
	for _, n := range []node{first, worker} {
		n.must("for i in $(seq 10); do exec 3<>/dev/tcp/" + address + "/80 && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && timeout 5 grep -q here <&3 || exit 1; done")
		n.must("systemctl is-active docker firewalld && docker ps")
	}
	first.must("sealift status")
	first.must(kubectl + "delete poddisruptionbudget/asked deployment/asked")
	for _, n := range []node{worker, first} {
		t.Log(n.must("sealift reset --yes 2>&1"))
		n.must("systemctl is-active docker firewalld && docker ps")
	}
}

// fetchPackages puts packages of this machine's Debian into a folder, with all that a host with these installed packages lacks.
func fetchPackages(t *testing.T, folder, installed string, names ...string) {
	t.Helper()
	status := filepath.Join(t.TempDir(), "status")
	if err := os.WriteFile(status, []byte(installed), 0o644); err != nil {
		t.Fatal(err)
	}
	shell(t, folder, "mkdir partial && apt-get -o Dir::State::status="+status+" -o Dir::Cache::archives=$PWD -o APT::Sandbox::User=root --download-only --no-install-recommends --yes install "+strings.Join(names, " "))
}
