package readdress

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/installer/cluster/controlplane"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/pki"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/regularfile"
)

// host is a node with its files below a folder.
type host struct {
	files.Host

	root string // install root, as the host names it
}

// patterns are those of the files that may name the address of the node.
func (h host) patterns() []string {
	return []string{
		"/etc/kubernetes/manifests/[^.]*.yaml", "/etc/kubernetes/*.conf",
		kubeadm.KubeletFlags, "/var/lib/kubelet/config.yaml", "/var/lib/kubelet/instance-config.yaml", "/etc/default/kubelet",
		"/etc/systemd/system/sealift-*.service", "/etc/systemd/system/*.service.d/*.conf",
		"/etc/containerd/config.toml", "/etc/containerd/conf.d/*", "/etc/containerd/certs.d/*/hosts.toml",
		"/etc/hosts",
		node.APIServersFile(h.root), node.InstallerFile(h.root), filepath.Join(h.root, node.ProxySettings),
	}
}

// kept are the patterns of the files to keep copies of: those that change, and those that are recreated.
func (h host) kept() []string {
	return slices.Concat(h.patterns(), []string{kubeadm.PKI + "/*.crt", kubeadm.PKI + "/etcd/*.crt"}, pki.KubeletServing())
}

// state is the state of a node according to its files.
type state struct {
	controlPlane bool
	address      netip.Addr
	second       netip.Addr     // of the other family, in a cluster with both; not valid if there is none
	etcd         bool           // a static pod of this host
	networks     []netip.Prefix // of pods and Services, as far as the files name them
	servers      []string       // addresses of the API servers that the node knows
}

// read reads the state of the node. It needs no API.
func (h host) read() (s state, err error) {
	manifest, err := regularfile.ReadFile(h.Path(kubeadm.APIServerManifest))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.address, err = h.kubeletAddress()
	case err == nil:
		s.controlPlane = true
		s.address, err = advertised(manifest)
	}
	if err != nil {
		return s, err
	}
	if s.second, err = h.secondAddress(); err != nil {
		return s, err
	}
	if s.controlPlane {
		if err := h.readControlPlane(&s); err != nil {
			return s, err
		}
	}
	known, err := balancer.ReadList(h.Path(node.APIServersFile(h.root)))
	for _, server := range known {
		if name, _, splitErr := net.SplitHostPort(server); splitErr == nil {
			s.servers = append(s.servers, name)
		}
	}
	return s, err
}

func advertised(manifest []byte) (netip.Addr, error) {
	text, err := controlplane.Advertised(manifest)
	if err != nil {
		return netip.Addr{}, err
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%s: %w", kubeadm.APIServerManifest, err)
	}
	return address.Unmap(), nil
}

// kubeletAddress reads the kubelet's --node-ip.
func (h host) kubeletAddress() (netip.Addr, error) {
	flags, err := regularfile.ReadFile(h.Path(kubeadm.KubeletFlags))
	if errors.Is(err, fs.ErrNotExist) {
		return netip.Addr{}, fmt.Errorf("this host is not a node of a cluster: it has no %s; run the command on a node", kubeadm.KubeletFlags)
	}
	if err != nil {
		return netip.Addr{}, err
	}
	found, _ := cluster.NodeIPs(flags)
	if found == "" {
		return netip.Addr{}, fmt.Errorf("%s does not tell the kubelet an address with --node-ip, so it takes the one that the host has: restart the kubelet", kubeadm.KubeletFlags)
	}
	address, err := netip.ParseAddr(found)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%s: %w", kubeadm.KubeletFlags, err)
	}
	return address.Unmap(), nil
}

// secondAddress reads the second address of the kubelet's --node-ip. It is not valid if there is none.
func (h host) secondAddress() (netip.Addr, error) {
	flags, err := regularfile.ReadFile(h.Path(kubeadm.KubeletFlags))
	if errors.Is(err, fs.ErrNotExist) {
		return netip.Addr{}, nil
	}
	_, second := cluster.NodeIPs(flags)
	if err != nil || second == "" {
		return netip.Addr{}, err
	}
	address, err := netip.ParseAddr(second)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%s: %w", kubeadm.KubeletFlags, err)
	}
	return address.Unmap(), nil
}

func (h host) readControlPlane(s *state) error {
	_, err := os.Stat(h.Path(kubeadm.EtcdManifest))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.etcd = err == nil
	manifest, err := regularfile.ReadFile(h.Path(kubeadm.ControllerManagerManifest))
	if err != nil {
		return err
	}
	networks, err := cluster.NetworksOf(manifest)
	if err != nil {
		return err
	}
	s.networks, err = networksOf(networks.List()...)
	return err
}

// Edit is a file that gets the new address.
type Edit struct {
	File   string `json:"file"`
	Places int    `json:"places"`

	text string
}

// edits are the files that name the old address, with what they have to contain. Certificates are not among them.
func (h host) edits(c Change) (all []Edit, err error) {
	for _, pattern := range h.patterns() {
		names, err := filepath.Glob(h.Path(pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range names {
			info, err := os.Stat(path)
			if err != nil || !info.Mode().IsRegular() {
				continue // a link that leads nowhere names no address
			}
			text, err := regularfile.ReadFile(path)
			if err != nil {
				return nil, err
			}
			name := h.Name(path)
			if out, places := c.rewrite(name, string(text)); places > 0 {
				all = append(all, Edit{File: name, Places: places, text: out})
			}
		}
	}
	return all, nil
}

// write writes the files. It may be interrupted and repeated with new edits.
func (h host) write(all []Edit) error {
	for _, e := range all {
		if err := files.Replace(h.Path(e.File), []byte(e.text)); err != nil {
			return fmt.Errorf("write the new address to %s: %w", e.File, err)
		}
	}
	// the kubelet makes a new one when it starts, if it signs that itself
	for _, name := range pki.KubeletServing() {
		if err := files.Remove(h.Path(name)); err != nil {
			return err
		}
	}
	return nil
}
