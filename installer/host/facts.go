// Package host describes the machine that an install changes, and what runs on it. The changes have separate packages below:
// packages, network, firewall, mounts, certificates.
//
// The package knows Linux and its distributions. It knows nothing of Kubernetes.
package host

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/installer/host/network"
	"github.com/sealift/sealift/internal/regularfile"
)

// Platform is this program's platform, and so the host's, such as linux/amd64.
const Platform = runtime.GOOS + "/" + runtime.GOARCH

// Arch is the host's architecture, as Go and the names of assets spell it: such as amd64.
func Arch() string { return runtime.GOARCH }

// Facts describe a host, as far as an install needs to know it.
type Facts struct {
	Distribution string         `json:"distribution"` // ID of os-release(5), such as debian
	Version      string         `json:"version"`      // VERSION_ID of os-release(5), such as 12
	Platform     string         `json:"platform"`     // such as linux/amd64
	Hostname     string         `json:"hostname"`     // as in Name
	Address      network.Choice `json:"address"`      // that other nodes reach with IPv4
	Address6     network.Choice `json:"address6"`     // the same with IPv6
	Used         []netip.Prefix `json:"used"`         // networks and single addresses that a cluster's must not overlap
	Attached     []netip.Prefix `json:"attached"`     // those of Used that have an interface
	// CgroupDriver is systemd, or cgroupfs where systemd's slices cannot be used: on cgroup v1.
	CgroupDriver  string `json:"cgroupDriver"`
	CgroupVersion int    `json:"cgroupVersion"`
	// CanLowerOOMScore is false without CAP_SYS_RESOURCE, as in most containers.
	CanLowerOOMScore bool `json:"canLowerOOMScore"`
}

// Target is the name under which packages are built for this host, such as debian-12. Distributions that are compatible
// with Red Hat's share its packages, whatever their minor version.
func (f Facts) Target() string {
	switch f.Distribution {
	case "rhel", "rocky", "almalinux", "centos", "ol":
		major, _, _ := strings.Cut(f.Version, ".")
		return "rhel-" + major
	case "amzn":
		return "amazon-" + f.Version
	}
	return f.Distribution + "-" + f.Version
}

// Discover inspects the host.
func Discover() (Facts, error) {
	release, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return Facts{}, fmt.Errorf("detect the distribution: %w", err)
	}
	f := Facts{Platform: Platform}
	f.Distribution, f.Version = parseOSRelease(release)
	if f.Hostname, err = Name(); err != nil {
		return Facts{}, err
	}
	view, err := network.Read()
	if err != nil {
		return Facts{}, err
	}
	f.Used, f.Attached = append(view.InUse(), nameServers()...), view.Attached()
	f.Address, f.Address6 = view.NodeAddress(false), view.NodeAddress(true)
	f.CgroupVersion, f.CgroupDriver = 1, "cgroupfs"
	var fs unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &fs); err == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC {
		f.CgroupVersion, f.CgroupDriver = 2, "systemd"
	}
	f.CanLowerOOMScore, err = hasCapability(unix.CAP_SYS_RESOURCE)
	return f, err
}

// nameServers returns the addresses of the name servers of this host, which may be in a network without a route.
func nameServers() (found []netip.Prefix) {
	for _, file := range []string{"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"} {
		text, err := regularfile.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) < 2 || f[0] != "nameserver" {
				continue
			}
			if a, err := netip.ParseAddr(f[1]); err == nil && a.IsGlobalUnicast() {
				found = append(found, netip.PrefixFrom(a, a.BitLen()))
			}
		}
	}
	return found
}

// Name is the host's, in lower case, as Kubernetes names the node.
func Name() (string, error) {
	name, err := os.Hostname()
	return strings.ToLower(name), err
}

// parseOSRelease reads os-release(5): assignments with optional quotes.
func parseOSRelease(data []byte) (id, version string) {
	values := make(map[string]string)
	for line := range strings.Lines(string(data)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && !strings.HasPrefix(name, "#") {
			values[name] = strings.Trim(value, `"'`)
		}
	}
	return values["ID"], values["VERSION_ID"]
}

// hasCapability checks a capability in the effective set, capabilities(7).
func hasCapability(capability uint) (bool, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false, err
	}
	for line := range bytes.Lines(status) {
		if hex, ok := bytes.CutPrefix(line, []byte("CapEff:")); ok {
			set, err := strconv.ParseUint(strings.TrimSpace(string(hex)), 16, 64)
			return set&(1<<capability) != 0, err
		}
	}
	return false, errors.New("/proc/self/status names no capabilities")
}
