package restore

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/lifecycle"
	"github.com/sealift/sealift/testgrid/kubeadm"
)

func TestNewHostHasTheKeysAndTheNetworksOfTheSnapshot(t *testing.T) {
	t.Parallel()
	c := newEtcdHost(t)
	from := c.save(t)
	n := &NewHost{ID: lifecycle.Digest(from.Index), host: host{t.TempDir()}, from: from}
	if err := n.read(); err != nil {
		t.Fatal(err)
	}
	if n.Pods != kubeadm.Pods || n.Services != "10.96.0.0/12" || len(n.keys) != len(sharedKeys) || n.was.Name != kubeadm.Node || !slices.Equal(namesOf(n.others, ""), []string{kubeadm.Node}) {
		t.Errorf("it is %+v", n)
	}
	if err := n.host.write(from, n.keys); err != nil {
		t.Fatal(err)
	}
	for _, name := range sharedKeys {
		want, err := os.ReadFile(c.path(cluster.PKI + "/" + name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(n.host.path(cluster.PKI + "/" + name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs: %v", name, err)
		}
	}
	if exists(n.host.path(cluster.PKI + "/apiserver.crt")) {
		t.Error("it has a certificate for another address")
	}
	if err := n.read(); err != nil {
		t.Errorf("with its own keys: %v", err)
	}
	n.host = host{strings.TrimSuffix(kubeadm.Folder(t), kubernetesFolder)}
	if err := n.read(); err == nil || !strings.Contains(err.Error(), "part of another cluster") {
		t.Errorf("on a host of another cluster: %v", err)
	}
}
