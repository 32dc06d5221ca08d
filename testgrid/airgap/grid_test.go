//go:build grid

package airgap_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/lab/mirror"
)

// TestEveryReleaseOnEverySystem installs the releases that the other test does not.
func TestEveryReleaseOnEverySystem(t *testing.T) {
	for _, row := range []struct{ kubernetes, system string }{{previous, "debian-12"}, {previous, "debian-13"}, {current, "debian-13"}} {
		t.Run(row.kubernetes+" on "+row.system, func(t *testing.T) {
			r := build(t, row.kubernetes, row.system)
			n := node{lab.Host(t, host.Spec{OS: row.system, USB: []string{r.usb}}), t}
			n.must(install)
			cluster(n)
			secondRun(n)
		})
	}
}

// newest is the newest release of an add-on that the catalogue ships.
func newest(name string) releases.Release {
	list := releases.Of(name, releases.Shipped)
	return list[len(list)-1]
}

// releasesOf makes the bundle of the demo's Installer with other releases of add-ons than the current ones, which 'make test' need not make.
func releasesOf(t *testing.T, name string, others ...releases.Release) delivery {
	t.Helper()
	short.Skip(t, "a host of the lab")
	return deliveries.once(t, name, func(r delivery) {
		args := []string{"build", "--out", r.packages, "--target", "debian-12", "--config", r.config, "--cache", r.cache}
		var chosen, changes []string
		for _, addOn := range addOns(current) {
			name, version, _ := strings.Cut(addOn, "/")
			release := releases.Current(name)
			if at := slices.IndexFunc(others, func(other releases.Release) bool { return other.Name == name }); at >= 0 {
				release = others[at]
			}
			chosen = append(chosen, name+"/"+release.Version)
			changes = append(changes, "version: "+version, "version: "+release.Version)
			args = append(args, release.Folder())
		}
		r.mirrored(t, mirror.Of(chosen...), func() { r.run(t, args...) })
		demo, err := os.ReadFile(filepath.Join(repository, "testgrid/demo/installer.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		r.bundle(t, strings.NewReplacer(changes...).Replace(string(demo)))
	})
}

// TestNewestReleasesMakeCluster installs the newest releases of Kubernetes and flannel on each release of containerd that ships, but for the
// oldest. A drop-in of the newest schema that this containerd knows, as NVIDIA's toolkit writes it, adds a runtime.
func TestNewestReleasesMakeCluster(t *testing.T) {
	kubernetes, runtimes := newest("kubernetes"), releases.Of("containerd", releases.Shipped)
	for _, runtime := range slices.Backward(runtimes[1:]) {
		t.Run("containerd "+runtime.Version, func(t *testing.T) {
			r := releasesOf(t, "containerd-"+runtime.Version, kubernetes, runtime, newest("flannel"))
			n := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}
			n.must(install)
			cluster(n)
			n.runs("v"+kubernetes.Version, 1)
			n.runsOn(runtime.Version)
			n.must(`schema=$(containerd config default | awk '$1 == "version" && !found++ { print $3 }')
[ "$(awk '$1 == "version" { print $3 }' /etc/containerd/config.toml)" = "$schema" ] || exit 1
printf 'version = %s\n[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.other]\nruntime_type = "io.containerd.runc.v2"\n' "$schema" >/etc/containerd/conf.d/99-other.toml
systemctl restart containerd && containerd config dump | grep -q 'runtimes.other'`)
			n.must(kubectl + "wait --for=condition=Ready node --all --timeout=180s")
			secondRun(n)
		})
	}
}

// runsOn checks that all nodes run a version of containerd.
func (n node) runsOn(runtime string) {
	n.t.Helper()
	for version := range strings.FieldsSeq(n.must(kubectl + "get nodes -o jsonpath='{.items[*].status.nodeInfo.containerRuntimeVersion}'")) {
		if strings.TrimPrefix(strings.TrimPrefix(version, "containerd://"), "v") != runtime {
			n.t.Errorf("a node runs %s, want containerd %s", version, runtime)
		}
	}
}
