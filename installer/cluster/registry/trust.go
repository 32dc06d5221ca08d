// Package registry lets containerd of a node pull from the registry that runs in the cluster, the catalogue's add-on, and from control
// planes. It learns of both while the node runs, and forgets what is removed.
package registry

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/regularfile"
)

// Host is the name by which images of the registry are pulled.
const Host = "registry.registry.svc"

// DefaultFolder is where containerd reads how it reaches registries. It reads that at each pull.
const DefaultFolder = "/etc/containerd/certs.d"

// hostsFile has the settings of one registry: https://github.com/containerd/containerd/blob/main/docs/hosts.md
const hostsFile = "hosts.toml"

// written is a file that Trust and the hook of the add-on write.
var written = regexp.MustCompile(`\Aserver = "https://([0-9a-f.:\[\]]+)"\nca = "[^"\n]+"\n\z`)

// Trust is what containerd of this node knows of the cluster's registry: a file for its name, and one for its address with and without the
// port.
type Trust struct {
	Folder string // empty is DefaultFolder
	CA     string // the CA of the cluster; empty is that of kubeadm
}

func (t Trust) defaults() Trust {
	return Trust{cmp.Or(t.Folder, DefaultFolder), cmp.Or(t.CA, filepath.Join(kubeadm.PKI, "ca.crt"))}
}

// Set trusts the registry at an address, and no longer the one at an earlier address. The zero address trusts none. It reports whether that
// changed files. Files that somebody else wrote stay as they are.
func (t Trust) Set(address netip.Addr) (changed bool, err error) {
	t = t.defaults()
	was, err := t.address()
	if err != nil {
		return false, err
	}
	if was.IsValid() && was != address {
		if changed, err = t.remove(was); err != nil {
			return changed, fmt.Errorf("the registry at %s is gone: %w", was, err)
		}
	}
	if !address.IsValid() {
		return changed, nil
	}
	added, err := t.add(address)
	if err != nil {
		err = fmt.Errorf("trust the registry at %s: %w", address, err)
	}
	return changed || added, err
}

// address returns the trusted address. It is not valid if there is none, or if somebody else wrote the file.
func (t Trust) address() (netip.Addr, error) {
	text, err := t.read(Host)
	return parse(text), err
}

// parse returns the address in a file that Trust or the hook wrote. It is not valid if somebody else wrote the file.
func parse(text []byte) netip.Addr {
	found := written.FindSubmatch(text)
	if found == nil {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(string(found[1]), "["), "]"))
	if err != nil || plain(a) != string(found[1]) {
		return netip.Addr{}
	}
	return a
}

// read returns the settings of a host, or nothing if there are none.
func (t Trust) read(host string) ([]byte, error) {
	text, err := regularfile.ReadFile(filepath.Join(t.Folder, host, hostsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// hosts lists the folders for an address.
func hosts(address netip.Addr) []string {
	return []string{Host, plain(address), net.JoinHostPort(address.String(), "443")}
}

// plain is an address as it stands in a URL.
func plain(address netip.Addr) string {
	if address.Is6() {
		return "[" + address.String() + "]"
	}
	return address.String()
}

func (t Trust) text(address netip.Addr) string {
	return fmt.Sprintf("server = \"https://%s\"\nca = \"%s\"\n", plain(address), t.CA)
}

func (t Trust) add(address netip.Addr) (changed bool, err error) {
	want := t.text(address)
	for _, host := range hosts(address) {
		text, err := t.read(host)
		if err != nil {
			return changed, err
		}
		if string(text) == want || text != nil && !parse(text).IsValid() {
			continue
		}
		folder := filepath.Join(t.Folder, host)
		if err := files.MkdirAll(folder, 0o755); err != nil {
			return changed, err
		}
		if err := files.Write(filepath.Join(folder, hostsFile), []byte(want)); err != nil {
			return changed, err
		}
		changed = true
	}
	return changed, nil
}

// remove removes the files for an address. That for the name is the last: it remembers the address.
func (t Trust) remove(address netip.Addr) (changed bool, err error) {
	all := hosts(address)
	for _, host := range append(all[1:], all[0]) {
		text, err := t.read(host)
		if err != nil {
			return changed, err
		}
		if parse(text) != address {
			continue
		}
		folder := filepath.Join(t.Folder, host)
		if err := files.Remove(filepath.Join(folder, hostsFile)); err != nil {
			return changed, err
		}
		changed = true
		if err := files.Remove(folder); err != nil && !errors.Is(err, syscall.ENOTEMPTY) {
			return changed, err
		}
	}
	return changed, nil
}
