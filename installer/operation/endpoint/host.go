package endpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"path/filepath"
	"slices"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/installer/cluster/controlplane"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/internal/regularfile"
)

// host is a node with its files below a folder.
type host struct {
	files.Host

	root string // install root, as the host names it
}

// endpoint is where this node reaches the API of the cluster.
func (h host) endpoint() (string, error) {
	at, err := cluster.Endpoint(h.Rootfs)
	if err == nil && at == "" {
		err = fmt.Errorf("this host is not a node of a cluster: it has no %s; run the command on a node", kubeadm.KubeletKubeconfig)
	}
	return at, err
}

// server is where the API server of this host listens; "" on a worker.
func (h host) server() (string, error) {
	manifest, err := regularfile.ReadFile(h.Path(kubeadm.APIServerManifest))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	address, err := controlplane.Advertised(manifest)
	return net.JoinHostPort(address, cluster.APIPort), err
}

// edits are the files that name the old load balancer, with their new content.
func (h host) edits(m intent.Move) (map[string]string, error) {
	names, err := filepath.Glob(h.Path("/etc/kubernetes/*.conf"))
	if err != nil {
		return nil, err
	}
	edits := map[string]string{}
	edit := func(path, was, is string, set func(text, was, is string) (string, int)) error {
		text, err := regularfile.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if out, places := set(string(text), was, is); places > 0 {
			edits[h.Name(path)] = out
		}
		return err
	}
	for _, path := range names {
		err = errors.Join(err, edit(path, m.From, m.To, setServer))
	}
	return edits, errors.Join(err,
		edit(h.Path(node.InstallerFile(h.root)), m.From, m.To, setInstaller),
		edit(h.Path(filepath.Join(h.root, node.ProxySettings)), cluster.HostOf(m.From), cluster.HostOf(m.To), setExceptions))
}

// write writes files. It may be interrupted and repeated.
func (h host) write(edits map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(edits)) {
		if err := files.Replace(h.Path(name), []byte(edits[name])); err != nil {
			return fmt.Errorf("write the new load balancer to %s: %w", name, err)
		}
	}
	return nil
}

// mark notes a change before its first file is written.
func (h host) mark(m intent.Move) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	file := h.Path(node.LoadBalancerFile(h.root))
	if err := files.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return files.WriteMode(file, 0o600, text)
}

// marked is a change that was interrupted here; nil if there is none.
func (h host) marked() (*intent.Move, error) {
	text, err := regularfile.ReadFile(h.Path(node.LoadBalancerFile(h.root)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there is none
	}
	m := &intent.Move{}
	if err == nil {
		err = json.Unmarshal(text, m)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; remove the file, and run the command again", node.LoadBalancerFile(h.root), err)
	}
	return m, nil
}

func (h host) unmark() error {
	file := h.Path(node.LoadBalancerFile(h.root))
	if err := files.Remove(file); err != nil {
		return err
	}
	return files.SyncDir(filepath.Dir(file))
}

// refuseOwn names the alternative in a cluster without a load balancer.
func refuseOwn(endpoint string) error {
	if balancer.Serves(endpoint) {
		return fmt.Errorf("this cluster has no load balancer in front of its API: every node has a balancer of its own, at %s, which finds the control planes by itself; "+
			"a control plane gets another address with 'sealift node readdress'", endpoint)
	}
	return nil
}
