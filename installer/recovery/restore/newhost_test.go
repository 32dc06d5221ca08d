package restore

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/installer/cluster/encryption"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/recovery/snapshot"
	kubeadmtest "github.com/sealift/sealift/internal/testing/kubeadm"
)

func TestNewHostGetsSnapshotKeysAndNetworks(t *testing.T) {
	t.Parallel()
	c := newEtcdHost(t)
	from := c.save(t)
	n := &NewHost{ID: lifecycle.Digest(from.Index), host: host{files.Host{Rootfs: t.TempDir()}}, from: from}
	if err := n.read(); err != nil {
		t.Fatal(err)
	}
	if n.Networks.Pods != kubeadmtest.Pods || n.Networks.Services != "10.96.0.0/12" || len(n.keys) != len(sharedKeys) || n.was.Name != kubeadmtest.Node || !strings.HasSuffix(n.endpoint, ":6443") || !slices.Equal(namesOf(n.others, ""), []string{kubeadmtest.Node}) {
		t.Errorf("it is %+v", n)
	}
	if err := n.host.write(from, n.keys); err != nil {
		t.Fatal(err)
	}
	for _, name := range sharedKeys {
		want, err := os.ReadFile(c.Path(kubeadm.PKI + "/" + name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(n.host.Path(kubeadm.PKI + "/" + name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs: %v", name, err)
		}
	}
	if exists(n.host.Path(kubeadm.PKI + "/apiserver.crt")) {
		t.Error("it has a certificate for another address")
	}
	if err := n.read(); err != nil {
		t.Errorf("with its own keys: %v", err)
	}
	n.host = host{files.Host{Rootfs: strings.TrimSuffix(kubeadmtest.Folder(t), kubeadm.Folder)}}
	if err := n.read(); err == nil || !strings.Contains(err.Error(), "part of another cluster") {
		t.Errorf("on a host of another cluster: %v", err)
	}
}

// TestWorkersAreKeptIfTheyReachNewHost uses two control planes in the snapshot; the second one saved it.
func TestWorkersAreKeptIfTheyReachNewHost(t *testing.T) {
	t.Parallel()
	n := &NewHost{was: member{Name: "host-2", Peers: peerURL("10.0.0.2")}, others: []peer{{"host-1", []string{peerURL("10.0.0.1")}}, {"host-2", []string{peerURL("10.0.0.2")}}}}
	for _, row := range []struct {
		endpoint, address string
		want              bool
	}{
		{balancer.Endpoint, "10.0.0.2", true},
		{balancer.Endpoint, "10.0.0.1", true}, // the balancers of workers also know that one
		{balancer.Endpoint, "10.0.0.9", false},
		{"localhost:6444", "10.0.0.9", false},
		{"10.0.0.100:6443", "10.0.0.9", true}, // a load balancer
		{"api.example.com:6443", "10.0.0.9", true},
		{"10.0.0.1:6443", "10.0.0.1", true}, // the first control plane itself
		{"10.0.0.1:6443", "10.0.0.2", false},
		{"", "10.0.0.2", true},
		{"", "10.0.0.9", false},
	} {
		n.endpoint = row.endpoint
		if got := n.reached(row.address); got != row.want {
			t.Errorf("nodes that ask %q reach a host at %s: %v, want %v", row.endpoint, row.address, got, row.want)
		}
	}
}

// TestSecretKeysAreRestored with a snapshot: on the host that lost them, on one that has rotated them since, and on a new one.
func TestSecretKeysAreRestored(t *testing.T) {
	t.Parallel()
	c := newEtcdHost(t)
	key := func(name string) encryption.Config {
		return encryption.Config{Keys: []encryption.Key{{Name: name, Secret: "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}}}
	}
	write := func(h host, k encryption.Config) {
		t.Helper()
		text, err := k.Encode()
		if err == nil {
			err = os.MkdirAll(filepath.Dir(h.Path(cluster.EncryptionFile)), 0o700)
		}
		if err == nil {
			err = os.WriteFile(h.Path(cluster.EncryptionFile), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	read := func(h host) (names []string) {
		t.Helper()
		text, err := os.ReadFile(h.Path(cluster.EncryptionFile))
		if err != nil {
			t.Fatal(err)
		}
		found, err := encryption.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range found.Keys {
			names = append(names, k.Name)
		}
		return names
	}
	manifest, err := os.ReadFile(c.Path(kubeadm.APIServerManifest))
	if err == nil {
		text := strings.Replace(string(manifest), "- kube-apiserver\n", "- kube-apiserver\n    - --encryption-provider-config="+cluster.EncryptionFile+"\n", 1)
		err = os.WriteFile(c.Path(kubeadm.APIServerManifest), []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	write(c.host, key("key-1-old"))
	from := c.save(t)
	const name = "etc/kubernetes/encryption/config.yaml"
	comeBack := func(files ...string) {
		t.Helper()
		missing, err := c.missing(from.Files)
		if err == nil {
			missing, err = c.addKeys(missing, from)
		}
		if err != nil || !slices.Equal(missing, files) {
			t.Fatalf("missing are %v, %v", missing, err)
		}
		if err := c.write(from, missing); err != nil {
			t.Fatal(err)
		}
	}
	comeBack()
	if err := os.Remove(c.Path(cluster.EncryptionFile)); err != nil {
		t.Fatal(err)
	}
	comeBack(name)
	if got := read(c.host); !slices.Equal(got, []string{"key-1-old"}) {
		t.Errorf("a host that lost its keys has %v", got)
	}
	write(c.host, key("key-2-new"))
	comeBack(name)
	if got := read(c.host); !slices.Equal(got, []string{"key-2-new", "key-1-old"}) {
		t.Errorf("a host that rotated its keys has %v", got)
	}
	n := &NewHost{ID: lifecycle.Digest(from.Index), host: host{files.Host{Rootfs: t.TempDir()}}, from: from}
	if err := n.host.writeKeys(from); err != nil || !n.Encrypted() || !slices.Equal(read(n.host), []string{"key-1-old"}) {
		t.Errorf("a new host has %v, %v", read(n.host), err)
	}
}

// TestUnencryptedHostReadsSnapshotSecrets: its API server gets the keys, or the restore is refused before it changes
// anything.
func TestUnencryptedHostReadsSnapshotSecrets(t *testing.T) {
	c := newEtcdHost(t)
	keys, err := encryption.Config{Keys: []encryption.Key{{Name: "key-1-a", Secret: "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	plain, err := os.ReadFile(c.Path(kubeadm.APIServerManifest))
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string, text []byte) {
		t.Helper()
		err := os.MkdirAll(filepath.Dir(c.Path(name)), 0o700)
		if err == nil {
			err = os.WriteFile(c.Path(name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	reads := func(file string) []byte {
		return []byte(strings.Replace(string(plain), "- kube-apiserver\n", "- kube-apiserver\n    - --encryption-provider-config="+file+"\n", 1))
	}
	for _, row := range []struct {
		name, inSnapshot string
		own              []byte
		enables          bool
		refused          string
	}{
		{"the host reads no keys", cluster.EncryptionFile, plain, true, ""},
		{"the host reads the same file", cluster.EncryptionFile, reads(cluster.EncryptionFile), false, ""},
		{"the host reads another file", cluster.EncryptionFile, reads("/etc/kubernetes/enc.yaml"), false, "name /etc/kubernetes/encryption/config.yaml"},
		{"the snapshot has a file of an administrator", "/etc/kubernetes/enc.yaml", plain, false, "give it --encryption-provider-config=/etc/kubernetes/enc.yaml"},
	} {
		put(kubeadm.APIServerManifest, reads(row.inSnapshot))
		put(row.inSnapshot, keys)
		from := c.save(t)
		put(kubeadm.APIServerManifest, row.own)
		r := &Restore{host: c.host, from: from}
		err := r.fit()
		if r.enables != row.enables || (err == nil) != (row.refused == "") || err != nil && !strings.Contains(err.Error(), row.refused) {
			t.Errorf("%s: enables %v, %v", row.name, r.enables, err)
		}
		if !row.enables {
			continue
		}
		if planned := r.Plan().In(lifecycle.Restore); !slices.ContainsFunc(planned, func(s lifecycle.Step) bool { return s.ID == "restore/encryption" }) {
			t.Errorf("%s: the steps are %v", row.name, planned)
		}
		if err := r.enable(t.Context()); err != nil {
			t.Fatal(err)
		}
		if now, err := os.ReadFile(c.Path(kubeadm.APIServerManifest)); err != nil || snapshot.EncryptionFile(now) != "etc/kubernetes/encryption/config.yaml" {
			t.Errorf("%s: the manifest has\n%s, %v", row.name, now, err)
		}
		if err := r.fit(); err != nil || r.enables {
			t.Errorf("%s, again: enables %v, %v", row.name, r.enables, err)
		}
	}
}
