// Package host says what the machine that is being changed is, and what runs on it. What an install changes there has packages of its
// own below: packages, network, firewall, mounts, certificates.
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
)

// Facts are what an install needs to know of its host.
type Facts struct {
	Distribution string         `json:"distribution"` // ID of os-release(5), such as debian
	Version      string         `json:"version"`      // VERSION_ID of os-release(5), such as 12
	Platform     string         `json:"platform"`     // such as linux/amd64
	Hostname     string         `json:"hostname"`     // as Name has it
	Address      netip.Addr     `json:"address"`      // that other nodes reach with IPv4; invalid when there is none
	Address6     netip.Addr     `json:"address6"`     // the same with IPv6
	Used         []netip.Prefix `json:"used"`         // networks that a cluster's must not overlap
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

// Discover looks at the host.
func Discover() (Facts, error) {
	release, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return Facts{}, fmt.Errorf("which distribution is this: %w", err)
	}
	f := Facts{Platform: runtime.GOOS + "/" + runtime.GOARCH}
	f.Distribution, f.Version = parseOSRelease(release)
	if f.Hostname, err = Name(); err != nil {
		return Facts{}, err
	}
	routes, err := network.Routes()
	if err != nil {
		return Facts{}, err
	}
	if f.Used, err = network.InUse(routes); err != nil {
		return Facts{}, err
	}
	if f.Address, err = network.NodeAddress(routes, false); err != nil {
		return Facts{}, err
	}
	if f.Address6, err = network.NodeAddress(routes, true); err != nil {
		return Facts{}, err
	}
	f.CgroupVersion, f.CgroupDriver = 1, "cgroupfs"
	var fs unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &fs); err == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC {
		f.CgroupVersion, f.CgroupDriver = 2, "systemd"
	}
	f.CanLowerOOMScore, err = hasCapability(unix.CAP_SYS_RESOURCE)
	return f, err
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

// hasCapability asks for a capability in the effective set, capabilities(7).
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
