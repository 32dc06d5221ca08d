package airgap_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/testgrid/lab/mirror"
	"github.com/sealift/sealift/testgrid/scenario"
)

// The folders below a second USB disk, each with a bundle whose containerd differs from the first one.
const (
	newerRuntime   = "newer"   // has a higher version
	rebuiltRuntime = "rebuilt" // has the same version and other files
)

// otherRuntimes makes those bundles, and returns the folder for the USB disk.
func (r delivery) otherRuntimes(t *testing.T) string {
	t.Helper()
	dir := r.part(t, "other-runtimes", func(dir string) {
		addOn := "addons/containerd/" + currentRuntime + "/"
		source, err := filepath.Abs(filepath.Join(repository, addOn))
		if err != nil {
			t.Fatal(err)
		}
		shell(t, r.dir(), `mkdir -p other-runtimes/addons/containerd other-runtimes/usb/{newer,rebuilt} && cp -rl packages other-runtimes/packages && cd other-runtimes/addons/containerd &&
cp -rL `+shellword.Quote(source)+` 2.9.0 && cp -r 2.9.0 `+currentRuntime+` && echo '# built again' >>`+currentRuntime+`/install.sh`)
		r.mirrored(t, mirror.Options{}, func() {
			r.run(t, "build", "--out", filepath.Join(dir, "packages"), "--target", "debian-12", "--config", r.config, "--cache", r.cache,
				filepath.Join(dir, addOn), filepath.Join(dir, "addons/containerd/2.9.0"))
		})
		text, err := os.ReadFile(filepath.Join(r.dir(), "installer.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for name, version := range map[string]string{newerRuntime: "2.9.0", rebuiltRuntime: currentRuntime} {
			installer := filepath.Join(dir, name+".yaml")
			place(t, installer, []byte(strings.ReplaceAll(string(text), currentRuntime, version)))
			usb := filepath.Join(dir, "usb", name)
			r.run(t, "bundle", "-f", installer, "--store", filepath.Join(dir, "packages"), "--out", filepath.Join(usb, "cluster.tar.gz"))
			shell(t, usb, "tar xzf cluster.tar.gz --occurrence=1 install.sh")
		}
	})
	return filepath.Join(dir, "usb")
}

// installFrom is install, from a folder of the second disk.
func installFrom(folder string) string {
	return strings.Replace(install, "/media/usb", "/media/usb2/"+folder, 1)
}

// runtimeKeepsRunning gives a node of a cluster a bundle with a newer container runtime, which is refused, and one with a rebuilt
// runtime: the pods' runtime is not replaced.
func runtimeKeepsRunning(n node) {
	const untouched = "dpkg-query -W; find /etc /usr/local /opt /var/lib/sealift -xdev -type f -printf '%p %s %T@\\n' | sort"
	const runs = "systemctl show --property=MainPID,ActiveEnterTimestampMonotonic containerd kubelet; " + kubectl + "get pods -A -o jsonpath='{range .items[*]}{.metadata.uid} {.status.containerStatuses[*].restartCount}{\"\\n\"}{end}' | sort"
	before, running := n.must(untouched), n.must(runs)
	out, code := n.run(installFrom(newerRuntime) + " 2>&1")
	for _, want := range []string{"containerd: this node runs version " + currentRuntime + ", the bundle has 2.9.0", "or use a bundle with the versions that run: ", "containerd " + currentRuntime, "kubernetes " + current, "flannel " + currentNetwork} {
		if code != 3 || !strings.Contains(out, want) {
			n.t.Errorf("with a newer containerd: exit %d, want 3 and %q in\n%s", code, want, out)
		}
	}
	if after := n.must(untouched); after != before {
		n.t.Errorf("a refused install changed the host:\n%s", strings.Join(scenario.Differences(strings.Split(before, "\n"), strings.Split(after, "\n")), "\n"))
	}
	if now := n.must(runs); now != running {
		n.t.Errorf("a refused install touched what runs:\nbefore\n%s\nafter\n%s", running, now)
	}
	n.refuses(installFrom(newerRuntime)+" --allow-downgrade --plan", 3, "this node runs version "+currentRuntime)

	if out := n.must(installFrom(rebuiltRuntime) + " 2>&1"); !strings.Contains(out, "done: ") || !strings.Contains(out, "containerd/files: done") || strings.Contains(out, "containerd/install") {
		n.t.Errorf("with a containerd that was built again:\n%s", out)
	}
	n.must("grep -q 'built again' /var/lib/sealift/addons/containerd/" + currentRuntime + "/install.sh")
	if now := n.must(runs); now != running {
		n.t.Errorf("an install of a runtime that was built again touched what runs:\nbefore\n%s\nafter\n%s", running, now)
	}
	if out := n.must(installFrom(rebuiltRuntime)); !strings.Contains(out, "nothing to do") {
		n.t.Errorf("second run:\n%s", out)
	}
}
