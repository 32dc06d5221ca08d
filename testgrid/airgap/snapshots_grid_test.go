//go:build grid

package airgap_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/docexamples"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// TestSnapshotsSayWhatTheyLack follows the page of the add-on. No driver of the lab takes snapshots, so the controller says what is missing.
// With two replicas, the other one takes over.
func TestSnapshotsSayWhatTheyLack(t *testing.T) {
	r, without := buildWith(t, "volume-snapshots"), build(t, current, "debian-12")
	n := node{lab.Host(t, host.Spec{USB: []string{r.usb, without.usb}}), t}
	n.writesSite("volume-snapshots: {replicas: 10}")
	n.refuses(install+site, 3, "volumeSnapshots.replicas must be a number from 1 to 9")
	n.writesSite("volume-snapshots: {replicas: 2}")
	n.must(install + site)
	const leader = "--namespace kube-system get lease snapshot-controller-leader -o jsonpath='{.spec.holderIdentity}'"
	n.within(120, kubectl+leader+" | grep snapshot-controller")
	first := strings.TrimSpace(n.must(kubectl + leader))
	n.must(kubectl + "--namespace kube-system delete pod --now " + first)
	n.within(120, "[ \"$("+kubectl+leader+")\" != "+first+" ] && "+kubectl+leader+" | grep snapshot-controller")
	n.pulled()
	if out := n.must(install + site); !strings.Contains(out, "nothing to do") {
		t.Errorf("second run:\n%s", out)
	}
	n.must("cat >/root/snapshot.yaml <<'END'\n" + docexamples.File(t, filepath.Join(repository, "docs/addons/volume-snapshots.md"), "snapshot.yaml") + "END")
	n.followsAddOn("addons/volume-snapshots.md", "")
	n.leaves("snapshot-controller\\|snapshot.storage")
}
