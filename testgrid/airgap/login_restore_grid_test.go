//go:build grid

package airgap_test

import (
	"testing"

	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/internal/testing/issuer/op"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// TestRestoreKeepsLogin loses everything that a control plane with an issuer knows, and restores it from a snapshot. The people of the issuer have
// the rights that they had at the time of the snapshot: a group that was revoked before it stays without, one that was revoked after it has
// them again.
func TestRestoreKeepsLogin(t *testing.T) {
	r := withConsole(t)
	c := &consoleCluster{t: t, issuer: op.Start(t, loginClient, "https://localhost/login/oidc/callback", ada, anna, rita)}
	n := c.boot(host.Spec{USB: []string{r.withLogin(t, "restored", current, c.login("staff", "leavers"))}})
	n.must(install)
	c.asks(anna, pods)
	c.asks(rita, pods)
	viewers := func(group string) {
		patch := "apiVersion: sealift.dev/v1\nkind: Installer\nspec:\n  kubernetes:\n" + c.login(group)
		n.must("printf %s " + shellword.Quote(patch) + " >/root/viewers.yaml && sealift install --bundle /media/usb/cluster.tar.gz --patch /root/viewers.yaml --yes")
	}
	viewers("staff")
	c.asks(rita, forbidden)
	n.must(saveSnapshot)
	n.keepsHash()
	viewers("leavers")
	c.asks(anna, forbidden)
	c.asks(rita, pods)

	n.must("rm -rf /var/lib/etcd /etc/kubernetes")
	n.kills("etcd")
	n.kills("kube-apiserver")
	t.Log(n.must(restoreSnapshot + ofItsCluster + " --yes"))
	c.asks(anna, pods)
	c.asks(rita, forbidden)
	c.asks(ada, pods)
	n.must("sealift status")
}
