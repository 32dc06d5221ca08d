// Package airgap_test follows the whole way of a user: packages from the catalogue's Manifests, one bundle, a host without a
// route out, a cluster. It uses the sealift binary and the lab, and no other code of the project.
package airgap_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

const (
	install = "cd /media/usb && cat install.sh | bash -s airgap"
	kubectl = "kubectl --kubeconfig /etc/kubernetes/admin.conf "
)

func TestHostWithoutRouteInstallsItself(t *testing.T) {
	t.Parallel()
	r := build(t, current, "debian-12")
	n := node{lab.Host(t, host.Spec{USB: []string{r.usb, r.otherRuntimes(t), r.chartBundle(t)}}), t}
	n.refuses("ip route get 1.1.1.1", 2, "unreachable")
	before := n.state()
	refusals(n)
	interrupted(n)
	supportBundle(n, "sealift/journal.json", "sealift/logs/install-", "host/journal/kubelet.txt", "host-collectors/", "version.yaml")
	out := n.must(install)
	if !strings.Contains(out, "done: ") {
		t.Errorf("the install ended without saying so:\n%s", out)
	}
	t.Run("cluster", func(t *testing.T) { cluster(node{n.Host, t}) })
	t.Run("options", func(t *testing.T) { options(node{n.Host, t}) })
	t.Run("support bundle", func(t *testing.T) {
		supportBundle(node{n.Host, t}, "cluster-resources/nodes.json", "flannel/kube-flannel", "cluster/events.txt", "analysis.json", "pods/kube-system_etcd")
	})
	t.Run("second run", func(t *testing.T) { secondRun(node{n.Host, t}) })
	t.Run("lost image", func(t *testing.T) { lostImage(node{n.Host, t}) })
	t.Run("another runtime", func(t *testing.T) { runtimeKeepsRunning(node{n.Host, t}) })
	t.Run("chart", func(t *testing.T) { chart(node{n.Host, t}) })
	t.Run("reset", func(t *testing.T) { reset(node{n.Host, t}, before) })
}

// lostImage reloads only a missing image on a node.
func lostImage(n node) {
	n.must("ctr --namespace k8s.io images rm --sync registry.k8s.io/metrics-server/metrics-server:v0.9.0")
	const load = "sealift images load /media/usb/cluster.tar.gz"
	if out := n.must(load + " 2>&1"); !strings.Contains(out, "loading registry.k8s.io/metrics-server/metrics-server:v0.9.0\n1 images loaded") {
		n.t.Errorf("with an image lost:\n%s", out)
	}
	if out := n.must(load + " 2>&1"); !strings.HasPrefix(out, "0 images loaded") {
		n.t.Errorf("with all there:\n%s", out)
	}
}

func secondRun(n node) {
	if out := n.must(install); !strings.Contains(out, "nothing to do") {
		n.t.Errorf("second run:\n%s", out)
	}
}

// refusals checks what must stop an install before it changes anything.
func refusals(n node) {
	before := n.must("dpkg-query -W; find /etc /usr/local /opt -xdev | sort")
	n.refuses("systemd-run --quiet --unit=squatter systemd-socket-activate -l 6443 /bin/true; sleep 1; "+install, 3, "port 6443 is in use")
	n.must("systemctl stop squatter")
	n.refuses("mkdir /tmp/cut && cp /media/usb/install.sh /tmp/cut && head -c 100000000 /media/usb/cluster.tar.gz >/tmp/cut/cluster.tar.gz; cd /tmp/cut && cat install.sh | bash -s airgap; code=$?; rm -rf /tmp/cut; exit $code", 1, "truncated")
	n.refuses("mkdir /tmp/bad && cp /media/usb/* /tmp/bad && "+flipped("/tmp/bad/cluster.tar.gz")+"; cd /tmp/bad && cat install.sh | bash -s airgap; code=$?; rm -rf /tmp/bad; exit $code", 3, "bundle: damaged: addons/")
	n.refuses("cp /usr/lib/os-release /tmp/os && sed -i s/12/11/ /tmp/os && mount --bind /tmp/os /usr/lib/os-release; "+install+"; code=$?; umount /usr/lib/os-release; rm /tmp/os; exit $code", 3, "no host packages for debian-11")
	n.refuses("mkdir -p /var/lib/containerd /tmp/small && mount -t tmpfs -o size=64m none /var/lib/containerd; "+install+"; code=$?; umount /var/lib/containerd; rmdir /tmp/small; exit $code", 3, "/var/lib/containerd")
	n.refuses("cd /media/usb && cat install.sh | setpriv --reuid 65534 --clear-groups bash -s airgap", 3, "sudo")
	if after := n.must("dpkg-query -W; find /etc /usr/local /opt -xdev | sort"); after != before {
		n.t.Errorf("a refused install changed the host:\nbefore\n%s\nafter\n%s", before, after)
	}
}

// flipped changes a byte in the middle of a bundle.
func flipped(bundle string) string {
	return "was=$(od -An -tu1 -j200000000 -N1 " + bundle + `) && printf "\\$(printf %o $((was ^ 255)))" | dd of=` + bundle + " bs=1 seek=200000000 conv=notrunc status=none"
}

// options checks the kubelet settings of the demo's Installer.
func options(n node) {
	config := n.must(kubectl + "get --raw /api/v1/nodes/" + n.Name() + "/proxy/configz")
	for _, want := range []string{`"maxPods":60,`, `"containerLogMaxSize":"5Mi"`, `"systemReserved":{"memory":"100Mi"}`} {
		if !strings.Contains(config, want) {
			n.t.Errorf("the kubelet lacks %s: %s", want, config)
		}
	}
}

// cluster checks the installed cluster.
func cluster(n node) {
	if got := n.must(kubectl + "get nodes --no-headers"); !strings.Contains(got, " Ready ") {
		n.t.Errorf("nodes: %s", got)
	}
	n.runsApp()
	if got := n.must(kubectl + "logs job/reader"); !strings.Contains(got, "written to a volume by notes-") {
		n.t.Errorf("reader got %q", got)
	}
	if got := n.must("for i in $(seq 600); do " + kubectl + "top nodes && exit 0; sleep 1; done; exit 1"); !strings.Contains(got, n.Name()) {
		n.t.Errorf("top nodes: %s", got)
	}
	for line := range strings.Lines(n.must(kubectl + "get pods -A --no-headers")) {
		if f := strings.Fields(line); len(f) < 4 || f[3] != "Running" && f[3] != "Completed" {
			n.t.Errorf("pod: %s", line)
		}
	}
	n.pulled()
	n.refuses("ip route get 1.1.1.1", 2, "unreachable")
}

// runsApp starts the demo's application, and waits until one of its pods has read from another through a Service.
func (n node) runsApp() {
	n.t.Helper()
	app, err := os.ReadFile("../demo/app.yaml")
	if err != nil {
		n.t.Fatal(err)
	}
	if err := n.Exec(n.t.Context(), host.Command{Args: []string{"bash", "-c", kubectl + "apply -f -"}, Stdin: bytes.NewReader(app)}); err != nil {
		n.t.Fatal(err)
	}
	n.must(kubectl + "wait --for=condition=Complete job/reader --timeout=180s")
}

// pulled checks that every image was already present.
func (n node) pulled() {
	var events struct {
		Items []struct{ Reason, Message string }
	}
	if err := json.Unmarshal([]byte(n.must(kubectl+"get events -A -o json")), &events); err != nil {
		n.t.Fatal(err)
	}
	seen := 0
	for _, e := range events.Items {
		if e.Reason != "Pulled" {
			continue
		}
		seen++
		if !strings.Contains(e.Message, "already present on machine") {
			n.t.Errorf("an image was pulled: %s", e.Message)
		}
	}
	if seen == 0 {
		n.t.Error("no Pulled event at all; " + strconv.Itoa(len(events.Items)) + " events")
	}
}
