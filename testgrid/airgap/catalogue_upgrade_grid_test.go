//go:build grid

package airgap_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/lab/mirror"
)

// catalogueOptions are what pages of add-ons set, with the address for metallb.
func catalogueOptions(pool string) map[string]string {
	return map[string]string{
		"metallb": "    addresses: [" + pool + "/32]\n",
		"traefik": "    httpNodePort: 30180\n",
		"velero":  "    schedule: 0 2 * * *\n",
	}
}

// catalogue makes two bundles with the newest version of each add-on: one with the Kubernetes before the current one, and its upgrade.
func catalogue(t *testing.T, pool string) (older, newer delivery) {
	t.Helper()
	short.Skip(t, "a host of the lab")
	chosen, folders, sections := []string{"v" + previous, "v" + current}, append(addOns(current), "kubernetes/"+previous), ""
	options := catalogueOptions(pool)
	for _, r := range releases.All() {
		if r.Use < releases.Shipped || slices.ContainsFunc(folders, func(folder string) bool { return strings.HasPrefix(folder, r.Name+"/") }) {
			continue
		}
		version := releases.Newest(r.Name).Version
		folders = append(folders, r.Name+"/"+version)
		if r.Name != "operator" { // this repository makes its image
			chosen = append(chosen, r.Name+"/"+version)
		}
		sections += "  " + r.Name + ":\n    version: " + version + "\n" + options[r.Name]
	}
	older = deliveries.once(t, "catalogue", func(d delivery) {
		d.mirrored(t, mirror.Of(chosen...), func() {
			d.serveOperator(t)
			args := []string{"build", "--out", d.packages, "--target", "debian-12", "--config", d.config, "--cache", d.cache}
			for _, folder := range folders {
				args = append(args, "addons/"+folder)
			}
			d.run(t, args...)
		})
		demo, err := os.ReadFile(filepath.Join(repository, "testgrid/demo/installer.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		text := string(demo) + sections
		d.bundle(t, strings.ReplaceAll(text, current, previous))
		newest := d
		newest.usb = filepath.Join(d.dir(), "newer")
		shell(t, d.dir(), "mkdir newer")
		newest.bundle(t, text)
		shell(t, newest.usb, "tar xzf cluster.tar.gz --occurrence=1 upgrade.sh")
	})
	newer = older
	newer.usb = filepath.Join(older.dir(), "newer")
	return older, newer
}

// TestCatalogueIsUpgraded takes a host with all add-ons to the next minor version of Kubernetes, while clients outside ask Traefik through
// an address of metallb, with TLS, and through a node port.
func TestCatalogueIsUpgraded(t *testing.T) {
	outside := node{lab.Host(t, host.Spec{}), t}
	pool := outside.another(10)
	older, newer := catalogue(t, pool)
	n := node{lab.Host(t, host.Spec{USB: []string{older.usb, newer.usb}}), t}
	n.must(install)
	n.allAvailable()
	ca := n.certified("names.example.com")
	n.must(kubectl + "apply -f - <<'END'\n" + routed + "END")
	n.must(kubectl + "rollout status deployment/names --timeout=180s")
	ways := []way{{"names.example.com", "443", pool}, {"route.example.com", "30180", n.Address().String()}}
	for _, w := range ways {
		outside.awaits(ca, w.name, w.port, w.address)
	}
	const restarts = kubectl + "get pods -A --no-headers -o custom-columns=N:.metadata.namespace,P:.metadata.name,U:.metadata.uid,R:.status.containerStatuses[*].restartCount | sort"
	before := n.must(restarts)
	stop := outside.asksAllTheTime(ca, ways...)
	began := time.Now()
	out, code := n.run(upgrade + " yes 2>&1")
	t.Logf("the upgrade took %s:\n%s", time.Since(began).Round(time.Second), out)
	n.allAvailable()
	for i, client := range stop() {
		t.Logf("%s at %s:%s: %d requests, %d lost, by cause %v; the longest time without an answer was %s",
			ways[i].name, ways[i].address, ways[i].port, client.asked, len(client.errs), client.causes, client.longest.Round(time.Millisecond))
		if client.asked < 100 || len(client.errs) > 0 {
			t.Errorf("lost:\n%s", strings.Join(client.errs, "\n"))
		}
		if client.longest >= maxGap {
			t.Errorf("nobody answered for %s; the goal is less than %s", client.longest, maxGap)
		}
	}
	if code != 0 {
		t.Fatalf("the upgrade ended with %d", code)
	}
	t.Logf("pods before:\n%s\nand after:\n%s", before, n.must(restarts))
	n.runs("v"+current, 1)
	n.pulled()
	if out := n.must(upgrade + " yes 2>&1"); !strings.Contains(out, "nothing to do") {
		t.Errorf("second run:\n%s", out)
	}
}

// allAvailable waits for the Deployments and DaemonSets of all add-ons.
func (n node) allAvailable() {
	n.t.Helper()
	n.must(kubectl + "wait deployments --all -A --for=condition=Available --timeout=300s && " + kubectl + "get daemonsets,statefulsets -A -o jsonpath='{range .items[*]}{.kind}/{.metadata.name} {.metadata.namespace}{\"\\n\"}{end}' | " +
		"while read -r what namespace; do " + kubectl + "--namespace $namespace rollout status $what --timeout=300s || exit; done")
}
