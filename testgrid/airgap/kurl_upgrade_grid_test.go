//go:build grid

package airgap_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/internal/testing/short"
)

// witness is an add-on that records what its hooks see of an upgrade.
const witness = `note() {
    printf '%s %s\n' "$1" "upgrade=${KUBERNETES_UPGRADE-unset} from=${CURRENT_KUBERNETES_VERSION-unset} to=$KUBERNETES_VERSION" \
        "$1" "target=$KUBERNETES_TARGET_VERSION_MAJOR.$KUBERNETES_TARGET_VERSION_MINOR.$KUBERNETES_TARGET_VERSION_PATCH distribution=$K8S_DISTRO airgap=$AIRGAP own=$WITNESS_VERSION" >>/var/tmp/witness
}
function witness_pre_init() { note pre_init; }
function witness() { note install; }
function witness_join() { note join; }
`

// secondVersions makes second versions of three of kURL's add-ons in dir, as kURL's own generators do: another folder whose files name
// another version. metrics-server also gets another image.
func secondVersions(t *testing.T, addOns []string, dir string) (folders []string) {
	t.Helper()
	for _, change := range []struct{ name, from, to, files, imageFrom, imageTo string }{
		{"metrics-server", "0.8.1", "0.9.0", "*", "v0.8.1", "v0.9.0"},
		{"goldpinger", "3.11.2-1.1.2", "3.11.2-1.1.3", "*", "", ""},
		{"contour", "1.32.1", "1.32.2", "install.sh", "", ""},
	} {
		from, to := "", filepath.Join(dir, change.name, change.to)
		for _, folder := range addOns {
			if strings.HasSuffix(folder, "/"+change.name+"/"+change.from) {
				from = folder
			}
		}
		shell(t, dir, "mkdir -p "+change.name+" && cp -r "+shellword.Quote(from)+" "+shellword.Quote(to)+" && cd "+shellword.Quote(to)+
			" && sed -i 's/"+change.from+"/"+change.to+"/g' "+change.files)
		if change.imageFrom != "" {
			shell(t, to, "sed -i 's/"+change.imageFrom+"/"+change.imageTo+"/g' *")
		}
		folders = append(folders, to)
	}
	return folders
}

// TestKurlAddOnsAreUpgraded upgrades a cluster of kURL's own add-ons, a control plane and a worker: Kubernetes by one minor
// version, and three add-ons to a second version. A witness among the add-ons records what hooks see.
func TestKurlAddOnsAreUpgraded(t *testing.T) {
	short.Skip(t, "a host of the lab")
	before := strings.ReplaceAll(kurlInstaller, "kubernetes: {version: "+current+"}", "kubernetes: {version: "+previous+"}\n  witness: {version: 1.0.0}")
	after := strings.NewReplacer(previous, current, "witness: {version: 1.0.0}", "witness: {version: 1.0.1}",
		"0.8.1", "0.9.0", "3.11.2-1.1.2", "3.11.2-1.1.3", "contour: {version: 1.32.1}", "contour: {version: 1.32.2}").Replace(before)
	newer := ""
	r := deliveries.once(t, "kurl-upgrade", func(r delivery) {
		own := filepath.Join(r.dir(), "addons")
		for _, version := range []string{"1.0.0", "1.0.1"} {
			place(t, filepath.Join(own, "witness", version, "install.sh"), []byte(witness))
			place(t, filepath.Join(own, "witness", version, "Manifest"), nil)
		}
		addOns := kurlAddOns(t)
		addOns = append(addOns, secondVersions(t, addOns, own)...)
		addOns = append(addOns, filepath.Join(own, "witness/1.0.0"), filepath.Join(own, "witness/1.0.1"))
		r.kurlPackages(t, addOns, previous, current)
		r.bundle(t, before)
		newer = filepath.Join(r.dir(), "newer")
		if err := os.Mkdir(newer, 0o755); err != nil {
			t.Fatal(err)
		}
		second := r
		second.usb = newer
		second.bundle(t, after)
		shell(t, newer, "tar xzf cluster.tar.gz --occurrence=1 upgrade.sh")
	})
	first, worker := ubuntuHost(t, r.usb, newer, r.debs()), ubuntuHost(t, r.debs())
	first.makesCluster(worker)
	first.allPodsReady()
	if got := first.must("cat /var/tmp/witness"); strings.Contains(got, "upgrade=1") || strings.Contains(got, "own=1.0.1") || !strings.Contains(got, "install upgrade= from= to="+previous) {
		t.Errorf("hooks of an install saw\n%s", got)
	}
	for _, n := range []node{first, worker} {
		n.must("rm -f /var/tmp/witness")
	}
	t.Log(first.must(upgrade + " --plan"))
	out := first.must(upgrade + " yes 2>&1")
	t.Log(out)
	if !strings.Contains(out, "done: the cluster is upgraded") {
		t.Error("the upgrade ended without saying so")
	}
	first.allPodsReady()
	seen := " upgrade=1 from=" + previous + " to=" + current + "\n"
	also := " target=" + current + " distribution=kubeadm airgap=1 own=1.0.1\n"
	got := first.must("cat /var/tmp/witness")
	for _, hook := range []string{"pre_init", "install"} {
		if !strings.Contains(got, hook+seen) || !strings.Contains(got, hook+also) {
			t.Errorf("%s lacks what kURL gives it:\n%s", hook, got)
		}
	}
	if strings.Contains(got, "upgrade= ") {
		t.Errorf("hooks of an upgrade saw\n%s", got)
	}
	t.Logf("hooks of the control plane saw\n%s", got)
	if got, code := worker.run("cat /var/tmp/witness"); code == 0 {
		t.Logf("hooks of the worker saw\n%s", got)
	}
	if got := first.must(kubectl + "get nodes --no-headers"); strings.Count(got, " Ready ") != 2 || strings.Count(got, "v"+current) != 2 {
		t.Errorf("nodes:\n%s", got)
	}
	if got := first.must(kubectl + "--namespace kube-system get deployment metrics-server -o jsonpath={.spec.template.spec.containers[*].image}"); !strings.HasSuffix(got, ":v0.9.0") {
		t.Errorf("metrics-server runs from %s", got)
	}
	if got := first.must("sealift status"); !strings.Contains(got, "3.11.2-1.1.3") || !strings.Contains(got, "1.32.2") || !strings.Contains(got, "0.9.0") {
		t.Errorf("status:\n%s", got)
	}
	first.standIns()
	first.pulled()
	kurlRegistry(first, worker)
	kurlProxy(first)
	if out := first.must(upgrade + " yes 2>&1"); !strings.Contains(out, "nothing to do") {
		t.Errorf("second run:\n%s", out)
	}
}
