// Package airgap_test takes the whole road, as a user does: packages from the catalogue's Manifests, one bundle, a host
// without a route out, a cluster. It uses the sealift binary and the lab, and no other code of the project.
package airgap_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/lab/mirror"
)

const repository = "../.."

// addOns are those of the demo's Installer, with a release of Kubernetes.
func addOns(kubernetes string) []string {
	return []string{"containerd/2.2.1", "kubernetes/" + kubernetes, "flannel/0.26.7", "local-path-provisioner/0.0.30", "metrics-server/0.9.0"}
}

// road is a bundle on a USB disk and all that led to it.
type road struct {
	sealift  string
	config   string // sealift.yaml with the mirrors
	cache    string
	packages string
	usb      string
}

// build goes from Manifests to the bundle, for one release of Kubernetes on one system.
func build(t *testing.T, kubernetes, system string) road {
	t.Helper()
	dir := t.TempDir()
	r := road{sealift: filepath.Join(dir, "sealift"), config: filepath.Join(dir, "sealift.yaml"), cache: filepath.Join(dir, "cache"),
		packages: filepath.Join(dir, "packages"), usb: filepath.Join(dir, "usb")}
	for _, d := range []string{r.packages, r.usb} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	compile := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", r.sealift, "./cmd/sealift")
	compile.Dir, compile.Env = repository, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m, err := mirror.Serve(t.Context(), mirror.Options{Progress: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	if err := m.WriteConfig(r.config); err != nil {
		t.Fatal(err)
	}
	args := []string{"build", "--out", r.packages, "--target", system, "--config", r.config, "--cache", r.cache}
	for _, a := range addOns(kubernetes) {
		args = append(args, "addons/"+a)
	}
	r.run(t, args...)
	demo, err := os.ReadFile(filepath.Join(repository, "testgrid/demo/installer.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	installer := filepath.Join(dir, "installer.yaml")
	if err := os.WriteFile(installer, bytes.ReplaceAll(demo, []byte("1.36.3"), []byte(kubernetes)), 0o600); err != nil {
		t.Fatal(err)
	}
	r.run(t, "bundle", "-f", installer, "--store", r.packages, "--out", filepath.Join(r.usb, "cluster.tar.gz"))
	unpack := exec.CommandContext(t.Context(), "tar", "xzf", "cluster.tar.gz", "--occurrence=1", "install.sh")
	unpack.Dir = r.usb
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

// run runs sealift on the building machine and returns what it printed.
func (r road) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), r.sealift, args...)
	var out, errOut bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = repository, &out, &errOut
	if err := cmd.Run(); err != nil {
		t.Fatalf("sealift %s: %v\n%s%s", strings.Join(args, " "), err, out.String(), errOut.String())
	}
	return out.String()
}

// node is a booted host.
type node struct {
	*host.Host
	t *testing.T
}

// run runs a script in the host and returns its output and exit code.
func (n node) run(script string) (string, int) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 15*time.Minute)
	defer cancel()
	var out bytes.Buffer
	err := n.Exec(ctx, host.Command{Args: []string{"bash", "-c", script}, Stdout: &out, Stderr: &out})
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return out.String(), exit.ExitCode()
	}
	if err != nil {
		n.t.Fatalf("%s: %v\n%s", script, err, out.String())
	}
	return out.String(), 0
}

func (n node) must(script string) string {
	n.t.Helper()
	out, code := n.run(script)
	if code != 0 {
		n.t.Fatalf("%s: exit %d\n%s", script, code, out)
	}
	return out
}

// refuses wants a script to fail with a code and a reason.
func (n node) refuses(script string, code int, reason string) {
	n.t.Helper()
	if out, got := n.run(script); got != code || !strings.Contains(out, reason) {
		n.t.Errorf("%s: exit %d, want %d and %q in\n%s", script, got, code, reason, out)
	}
}

const (
	install = "cd /media/usb && cat install.sh | bash -s airgap"
	kubectl = "kubectl --kubeconfig /etc/kubernetes/admin.conf "
)

func TestHostWithoutRouteInstallsItself(t *testing.T) {
	r := build(t, "1.36.3", "debian-12")
	n := node{host.ForTest(t, host.Spec{Name: "airgap-test", USB: []string{r.usb}}), t}
	n.refuses("ip route get 1.1.1.1", 2, "unreachable")
	refusals(n)
	interrupted(n)
	out := n.must(install)
	if !strings.Contains(out, "done: ") {
		t.Errorf("the install ended without saying so:\n%s", out)
	}
	t.Run("cluster", func(t *testing.T) { cluster(node{n.Host, t}) })
	t.Run("second run", func(t *testing.T) { secondRun(node{n.Host, t}) })
}

func secondRun(n node) {
	if out := n.must(install); !strings.Contains(out, "nothing to do") {
		n.t.Errorf("second run:\n%s", out)
	}
}

// refusals looks at what must stop an install before it changes anything.
func refusals(n node) {
	before := n.must("dpkg-query -W; find /etc /usr/local /opt -xdev | sort")
	n.refuses("systemd-run --quiet --unit=squatter systemd-socket-activate -l 6443 /bin/true; sleep 1; "+install, 3, "port 6443 is in use")
	n.must("systemctl stop squatter")
	n.refuses("mkdir /tmp/cut && cp /media/usb/install.sh /tmp/cut && head -c 100000000 /media/usb/cluster.tar.gz >/tmp/cut/cluster.tar.gz; cd /tmp/cut && cat install.sh | bash -s airgap; code=$?; rm -rf /tmp/cut; exit $code", 1, "truncated")
	n.refuses("mkdir /tmp/bad && cp /media/usb/* /tmp/bad && printf X | dd of=/tmp/bad/cluster.tar.gz bs=1 seek=200000000 conv=notrunc status=none; cd /tmp/bad && cat install.sh | bash -s airgap; code=$?; rm -rf /tmp/bad; exit $code", 3, "bundle: damaged: addons/")
	n.refuses("cp /usr/lib/os-release /tmp/os && sed -i s/12/11/ /tmp/os && mount --bind /tmp/os /usr/lib/os-release; "+install+"; code=$?; umount /usr/lib/os-release; rm /tmp/os; exit $code", 3, "no host packages for debian-11")
	n.refuses("mkdir -p /var/lib/containerd /tmp/small && mount -t tmpfs -o size=64m none /var/lib/containerd; "+install+"; code=$?; umount /var/lib/containerd; rmdir /tmp/small; exit $code", 3, "/var/lib/containerd")
	n.refuses("cd /media/usb && cat install.sh | setpriv --reuid 65534 --clear-groups bash -s airgap", 3, "sudo")
	if after := n.must("dpkg-query -W; find /etc /usr/local /opt -xdev | sort"); after != before {
		n.t.Errorf("a refused install changed the host:\nbefore\n%s\nafter\n%s", before, after)
	}
}

// interrupted kills an install in its middle: kubeadm is at work.
func interrupted(n node) {
	n.must("systemd-run --quiet --unit=first --property=KillMode=control-group bash -c '" + install + "'")
	n.must("for i in $(seq 600); do [ ! -e /etc/kubernetes/manifests/etcd.yaml ] || exit 0; sleep 0.5; done; journalctl -u first; exit 1")
	n.must("systemctl kill --signal=KILL first; sleep 1; sealift journal")
}

// cluster looks at what the install made.
func cluster(n node) {
	if got := n.must(kubectl + "get nodes --no-headers"); !strings.Contains(got, " Ready ") {
		n.t.Errorf("nodes: %s", got)
	}
	app, err := os.ReadFile("../demo/app.yaml")
	if err != nil {
		n.t.Fatal(err)
	}
	if err := n.Exec(n.t.Context(), host.Command{Args: []string{"bash", "-c", kubectl + "apply -f -"}, Stdin: bytes.NewReader(app)}); err != nil {
		n.t.Fatal(err)
	}
	n.must(kubectl + "wait --for=condition=Complete job/reader --timeout=180s")
	if got := n.must(kubectl + "logs job/reader"); !strings.Contains(got, "written to a volume by notes-") {
		n.t.Errorf("reader got %q", got)
	}
	if got := n.must("for i in $(seq 90); do " + kubectl + "top nodes && exit 0; sleep 1; done; exit 1"); !strings.Contains(got, n.Name()) {
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

// pulled wants every image to have been there before.
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
