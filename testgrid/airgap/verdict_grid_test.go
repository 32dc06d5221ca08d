//go:build grid

package airgap_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// demandsVerdict gives a host the policy that a bundle needs a verdict by the key on the USB disk.
func (n node) demandsVerdict(key, policy string) {
	n.t.Helper()
	n.must("mkdir -p /etc/sealift && echo " + key + " | base64 -d >/etc/sealift/release.pub && echo 'vulnerabilities: {keys: [release.pub]" + policy + "}' >/etc/sealift/vulnerabilities.yaml")
}

// TestVerdictIsDemandedOnEveryNode has a policy of vulnerabilities on a control plane, and on a worker that gets the verdict from there. A verdict
// that became too old is renewed.
func TestVerdictIsDemandedOnEveryNode(t *testing.T) {
	r := withConsole(t)
	usb := r.part(t, "verdict", func(dir string) { r.consoleBundle(t, "testgrid/demo/installer.yaml", dir) })
	first, worker := node{lab.Host(t, host.Spec{USB: []string{usb}}), t}, node{lab.Host(t, host.Spec{}), t}
	key := strings.TrimSpace(first.must("base64 -w0 /media/usb/release.pub"))
	first.demandsVerdict(key, "")
	worker.demandsVerdict(key, ", maxAgeDays: 3650")
	database := func(name, modified string) string {
		place(t, filepath.Join(usb, "osv", name, "a.json"), []byte(`{"id": "GO-1", "modified": "`+modified+`T00:00:00Z", "affected": [{"package": {"ecosystem": "Go", "name": "example.org/x"}}]}`))
		out := filepath.Join(usb, "osv", name+".tar.gz")
		r.run(t, "vulndb", "pull", "--from", filepath.Join(usb, "osv", name), "--out", out)
		return out
	}
	judge := func(database string) {
		t.Setenv("SEALIFT_KEY_PASSPHRASE", keyPassphrase)
		t.Log(r.run(t, "verdict", filepath.Join(usb, "cluster.tar.gz"), "--vulnerabilities", database, "--fail-on", "high", "--key", filepath.Join(r.dir(), "release.key")))
	}
	const demands = "/etc/sealift/vulnerabilities.yaml demands a verdict about vulnerabilities, and the bundle came without one"
	first.refuses(install+" 2>&1", 3, demands)
	judge(database("old", "2001-01-01"))
	first.must(install)
	join := first.joinCommand("")
	worker.refuses(join+" 2>&1", 3, "is too old: by the clock of this host, the database is ")
	judge(database("new", "2026-11-01"))
	first.must("sealift install --bundle /media/usb/cluster.tar.gz --yes")
	worker.must(join)
	first.hasNodes(2)

	first.must("rm /var/lib/sealift/verdict.json")
	worker.must("sealift reset --yes && rm -rf /var/lib/sealift")
	worker.refuses(join+" 2>&1", 3, demands)
}
