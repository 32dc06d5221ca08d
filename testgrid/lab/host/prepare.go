package host

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
)

// plainFolders are folders of the host outside the overlay, by their names in the host's folder: containerd and kubelet mount
// overlays in them, which an overlay cannot carry.
func plainFolders() map[string]string {
	return map[string]string{"containerd": "/var/lib/containerd", "kubelet": "/var/lib/kubelet"}
}

// disk returns the folder with everything that the host writes.
func (h *Host) disk() string {
	if h.state.Disk != "" {
		return h.state.Disk
	}
	return h.dir
}

// setupUnit runs before anything else that a host starts.
const setupUnit = `[Unit]
Description=Lab host: address and control groups
DefaultDependencies=no
Before=sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh /etc/sealift-lab/setup
`

// setupScript gives the host its address, and only a route to its own network. Control groups of version 1 are mounted
// read-only by systemd-nspawn; a kubelet needs them writable.
const setupScript = `set -eu
ip link set dev host0 up
%sfor controller in /sys/fs/cgroup/*/; do
	if mountpoint -q "$controller"; then mount -o remount,bind,rw "$controller"; fi
done
`

// exitScript gives the host a default route. Nobody answers for the gateway, so its hardware address is made up.
const exitScript = `ip neigh replace %s lladdr 02:00:00:00:00:01 nud permanent dev host0
ip route add default via %[1]s dev host0
`

// addressScript gives the host an address.
func (h *Host) addressScript(address netip.Addr) string {
	var option string
	if address.Is6() {
		option = " nodad" // the rack knows that nobody else has the address
	}
	return fmt.Sprintf("ip address add %s/%d dev host0%s\n", address, networkOf(address.Is6()).Bits(), option)
}

// setup returns the script that runs at each boot.
func (h *Host) setup() string {
	script := fmt.Sprintf(setupScript, h.addressScript(h.state.Address))
	if h.state.Address6.IsValid() {
		script += h.addressScript(h.state.Address6)
	}
	if h.state.Exit {
		script += fmt.Sprintf(exitScript, gateway(h.network()))
	}
	return script
}

// names is the content of /etc/hosts.
func (h *Host) names() string {
	return fmt.Sprintf("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n%s %s\n", h.state.Address, h.state.Name)
}

// usbName returns the name of the folder in /media for one of the folders of USB.
func usbName(i int) string {
	if i == 0 {
		return "usb"
	}
	return "usb" + strconv.Itoa(i+1)
}

// prepare writes the files that distinguish this host from its tree.
func (h container) prepare(context.Context, string) error {
	folders := []string{filepath.Join(h.dir, "root"), filepath.Join(h.disk(), "upper"), filepath.Join(h.disk(), "work")}
	for folder := range plainFolders() {
		folders = append(folders, filepath.Join(h.disk(), folder))
	}
	for _, folder := range folders {
		if err := os.Mkdir(folder, 0o755); err != nil {
			return err
		}
	}
	files := map[string]string{
		"etc/hostname":                           h.state.Name + "\n",
		"etc/hosts":                              h.names(),
		"etc/machine-id":                         "", // the container's manager makes one up
		"etc/modules":                            "", // systemd's list of modules points here, and a server has it
		"etc/sealift-lab/setup":                  h.setup(),
		"etc/systemd/system/sealift-lab.service": setupUnit,
	}
	for path, content := range files {
		full := filepath.Join(h.disk(), "upper", path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return h.link(map[string]string{
		"etc/systemd/system/sysinit.target.wants/sealift-lab.service": "../sealift-lab.service",
		// An unused console, and package downloads that would take apt's lock at a random moment only to fail.
		"etc/systemd/system/console-getty.service":   "/dev/null",
		"etc/systemd/system/apt-daily.timer":         "/dev/null",
		"etc/systemd/system/apt-daily-upgrade.timer": "/dev/null",
	})
}

func (h container) link(links map[string]string) error {
	for path, target := range links {
		full := filepath.Join(h.disk(), "upper", path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(target, full); err != nil {
			return err
		}
	}
	return nil
}
