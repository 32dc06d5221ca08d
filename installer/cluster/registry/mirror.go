package registry

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/mirror"
	"github.com/sealift/sealift/installer/cluster/peer"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/regularfile"
)

// defaultHost is the folder of the settings for all registries that have none of their own.
const defaultHost = "_default"

// mirrorMark is the first line of the file that Mirror writes.
const mirrorMark = "# The control planes, which 'sealift node agent' keeps up to date: containerd.mirror of the Installer.\n"

// Mirror lets containerd of this node ask control planes for an image before it asks the registry in the image's name. A registry with
// settings of its own is asked alone.
type Mirror struct {
	Folder      string // empty is DefaultFolder
	CA          string // the CA of the cluster; empty is that of kubeadm
	Certificate string // certificate and key that prove this node, in one file; empty is that of the kubelet
}

func (m Mirror) defaults() Mirror {
	t := Trust{m.Folder, m.CA}.defaults()
	return Mirror{t.Folder, t.CA, cmp.Or(m.Certificate, kubeadm.KubeletCertificate)}
}

// Set has these servers asked, host:port, in their order; none removes the file. It reports whether the file changed. A file that somebody
// else wrote stays, and is an error if there are servers.
func (m Mirror) Set(servers []string) (changed bool, err error) {
	m = m.defaults()
	name := filepath.Join(m.Folder, defaultHost, hostsFile)
	had, err := regularfile.ReadFile(name)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return false, err
	}
	foreign := !missing && !bytes.HasPrefix(had, []byte(mirrorMark))
	switch {
	case foreign && len(servers) > 0:
		return false, fmt.Errorf("%s is not from Sealift, and stays; remove it, or containerd.mirror from the Installer", name)
	case len(servers) == 0 && (foreign || missing):
		return false, nil
	case len(servers) == 0:
		if err := files.Remove(name); err != nil {
			return false, err
		}
		if err := files.Remove(filepath.Dir(name)); err != nil && !errors.Is(err, syscall.ENOTEMPTY) {
			return true, err
		}
		return true, nil
	}
	// containerd pulls nothing at all while it cannot read a file that hosts.toml names
	for _, needed := range []string{m.CA, m.Certificate} {
		if _, err := os.Stat(needed); err != nil {
			return false, fmt.Errorf("pull from control planes: %w", err)
		}
	}
	want := m.text(servers)
	if string(had) == want {
		return false, nil
	}
	if err := files.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return false, err
	}
	return true, files.Write(name, []byte(want))
}

// text has no server of its own: what no control plane has is pulled from the registry in its name. Each control plane is there twice: the second
// time, under another spelling of the same URL, it sends a blob itself. containerd gets there if a node that it was sent to does not answer.
func (m Mirror) text(servers []string) string {
	var text strings.Builder
	text.WriteString(mirrorMark)
	for _, of := range []struct{ path, capabilities, more string }{
		{"", `["pull", "resolve"]`, ""}, {strings.TrimSuffix(mirror.Path, "/"), `["pull"]`, "  header = { " + peer.DirectHeader + " = \"true\" }\n"},
	} {
		for _, server := range servers {
			fmt.Fprintf(&text, "\n[host.%q]\n  capabilities = %s\n  ca = %q\n  client = [[%q, %q]]\n  dial_timeout = \"3s\"\n%s",
				"https://"+server+of.path, of.capabilities, m.CA, m.Certificate, m.Certificate, of.more)
		}
	}
	return text.String()
}

// mirrors returns the servers of images on other control planes, in an order that differs between nodes, so that they do not all ask the same
// one first. apiServers are host:port; own are the addresses of this node; address completes a host with the port of images.
func mirrors(apiServers []string, own []netip.Addr, node string, address func(host string) string) (servers []string) {
	for _, server := range apiServers {
		host, _, err := net.SplitHostPort(server)
		if err != nil {
			continue
		}
		if a, err := netip.ParseAddr(host); err == nil && slices.Contains(own, a) {
			continue
		}
		servers = append(servers, address(host))
	}
	slices.Sort(servers)
	servers = slices.Compact(servers)
	if len(servers) == 0 {
		return nil
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(node))
	at := int(sum.Sum32() % uint32(len(servers)))
	return slices.Concat(servers[at:], servers[:at])
}

// ownAddresses are the addresses of this host.
func ownAddresses() (own []netip.Addr, err error) {
	all, err := net.InterfaceAddrs()
	for _, one := range all {
		if p, err := netip.ParsePrefix(one.String()); err == nil {
			own = append(own, p.Addr())
		}
	}
	return own, err
}
