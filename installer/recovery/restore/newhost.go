package restore

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/controlplane"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/recovery/snapshot"
	"github.com/sealift/sealift/installer/recovery/volume"
)

// NewHost is a bare host that takes the place of the control plane of a snapshot.
type NewHost struct {
	ID       string // of the snapshot
	Networks node.ClusterNetworks
	Volumes  Volumes

	host   host
	root   string
	from   *snapshot.Content
	was    member   // the control plane of the snapshot
	others []peer   // all control planes of the snapshot
	keys   []string // files of the snapshot that every control plane of the cluster has
	// endpoint is where the nodes of the snapshot reach the API; "" if it does not tell.
	endpoint string
}

// sharedKeys are the keys that all control planes have in common. kubeadm makes the others of them.
var sharedKeys = []string{"ca.crt", "ca.key", "sa.key", "sa.pub", "front-proxy-ca.crt", "front-proxy-ca.key", "etcd/ca.crt", "etcd/ca.key"}

// ForNewHost checks that a new host can be made of a snapshot, and that this one has no cluster of its own. It changes nothing.
func ForNewHost(root string, from *snapshot.Content, volumes ReadVolumes) (*NewHost, error) {
	n := &NewHost{ID: lifecycle.Digest(from.Index), root: root, from: from}
	err := n.read()
	if err == nil {
		n.Volumes, err = n.host.volumes(from.Index, volumes)
	}
	return n, err
}

func (n *NewHost) read() error {
	own, file, err := n.host.clusterOf()
	if err != nil {
		return err
	}
	if own != "" && own != n.from.Cluster {
		return fmt.Errorf("this host is part of another cluster: the CA in %s is %s, and that of the snapshot is %s; reset it first with 'sealift reset'", file, own, n.from.Cluster)
	}
	for _, f := range n.from.Files {
		shared, isKey := strings.CutPrefix("/"+f.Name, kubeadm.PKI+"/")
		if isKey && slices.Contains(sharedKeys, shared) {
			n.keys = append(n.keys, f.Name)
		}
	}
	for _, name := range sharedKeys {
		if !slices.Contains(n.keys, strings.TrimPrefix(kubeadm.PKI, "/")+"/"+name) {
			return fmt.Errorf("the snapshot lacks %s/%s, which a new host needs", kubeadm.PKI, name)
		}
	}
	manifest, _ := n.from.File(strings.TrimPrefix(kubeadm.EtcdManifest, "/"))
	if n.was, err = parseMember(manifest); err != nil {
		return fmt.Errorf("the snapshot: %w", err)
	}
	if err := n.readNetworks(); err != nil {
		return fmt.Errorf("the snapshot: %w", err)
	}
	d, err := readData(fmt.Sprintf("/proc/self/fd/%d", n.from.Etcd.Fd()))
	if err != nil {
		return fmt.Errorf("the snapshot: %w", err)
	}
	n.others, n.endpoint = d.members, endpointOf(n.from)
	return nil
}

// readNetworks reads the networks of the cluster from the manifest of its controller manager.
func (n *NewHost) readNetworks() (err error) {
	manifest, _ := n.from.File(strings.TrimPrefix(kubeadm.ControllerManagerManifest, "/"))
	n.Networks, err = cluster.NetworksOf(manifest)
	return err
}

// Files are the files that Plant writes, besides etcd's data.
func (n *NewHost) Files() (names []string) {
	for _, name := range n.keys {
		names = append(names, "/"+name)
	}
	if n.Encrypted() {
		names = append(names, cluster.EncryptionFile)
	}
	return names
}

// Encrypted reports whether the Secrets of the snapshot are encrypted. The new host gets the keys.
func (n *NewHost) Encrypted() bool {
	_, _, ok := n.from.Encryption()
	return ok
}

// writeKeys writes the keys for Secrets where the API server of a new host looks for them.
func (h host) writeKeys(from *snapshot.Content) error {
	_, keys, ok := from.Encryption()
	if !ok {
		return nil
	}
	path := h.Path(cluster.EncryptionFile)
	if err := files.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return files.WriteMode(path, 0o600, keys)
}

// Check refuses a new host while a control plane of the snapshot lives.
func (n *NewHost) Check(ctx context.Context) error {
	gone := slices.DeleteFunc(slices.Clone(n.others), func(p peer) bool { return hasAddress(p) == nil })
	return (&Restore{others: gone}).Check(ctx)
}

// Plant writes the keys, and makes etcd's data with this host as the only member.
func (n *NewHost) Plant(ctx context.Context, name, address string, output io.Writer) error {
	if err := n.host.write(n.from, n.keys); err != nil {
		return err
	}
	if err := n.host.writeKeys(n.from); err != nil {
		return err
	}
	m := member{Name: name, Peers: peerURL(address), Data: n.was.Data, Image: n.was.Image}
	d := dataFolder{path: n.host.Path(m.Data), generation: n.ID[:16]}
	if d.inPlace() {
		return nil
	}
	if _, err := n.from.Etcd.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := makeData(ctx, n.root, d, m, output, n.from.Etcd, true); err != nil {
		return err
	}
	return d.exchange()
}

// Settle removes the control planes of the snapshot, and gives the volumes of the one that was saved to this host. If no other node can
// reach this host, all others are removed, too: they have to be reset and to join again.
func (n *NewHost) Settle(ctx context.Context, name, address string, output io.Writer) error {
	admin, err := controlplane.AsAdministrator()
	if err != nil {
		return err
	}
	gone := namesOf(n.others, name)
	if !n.reached(address) {
		nodes, err := admin.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list the nodes: %w", err)
		}
		for _, one := range nodes.Items {
			if one.Name != name && !slices.Contains(gone, one.Name) {
				gone = append(gone, one.Name)
			}
		}
	}
	if err := removeNodes(ctx, admin, gone, output); err != nil || n.was.Name == name {
		return err
	}
	var volumes []string
	for _, v := range n.from.Volumes {
		volumes = append(volumes, v.Name)
	}
	return volume.Renamed(ctx, admin.Client, volumes, n.was.Name, name, n.host.Path(node.VolumesDir(n.root)), output)
}

// namesOf returns the names of all members except one.
func namesOf(members []peer, but string) (names []string) {
	for _, m := range members {
		if m.Name != "" && m.Name != but {
			names = append(names, m.Name)
		}
	}
	return names
}

// peerURL is where other members reach the etcd of a host, as kubeadm has it.
func peerURL(address string) string { return "https://" + net.JoinHostPort(address, "2380") }
