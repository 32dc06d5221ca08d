package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
)

func (p probes) ports(ctx context.Context, r *Reporter) {
	if len(p.needs.Ports) == 0 {
		r.Passf("none are needed")
		return
	}
	if p.needs.Resumed {
		r.Passf("not checked: the cluster on this host may use them")
		return
	}
	var free []string
	for _, port := range p.needs.Ports {
		err := p.host.PortError(ctx, port)
		switch {
		case err == nil:
			free = append(free, strconv.Itoa(port))
		case errors.Is(err, syscall.EADDRINUSE):
			r.Failf(fmt.Sprintf("stop the program that listens there; ss -ltnp 'sport = :%d' shows it", port), "port %d is in use", port)
		default:
			r.unknown(fmt.Errorf("port %d: %w", port, err))
		}
	}
	if len(free) == len(p.needs.Ports) {
		r.Passf("free: %s", strings.Join(free, ", "))
	}
}

// reach connects to the addresses that a joining node needs.
func (p probes) reach(ctx context.Context, r *Reporter) {
	for _, address := range p.needs.Reach {
		if err := p.host.Dial(ctx, address); err != nil {
			r.Failf("check that the node runs, and that no firewall blocks TCP between the two", "cannot connect to %s: %v", address, err)
			continue
		}
		r.Passf("%s answers", address)
	}
	if len(p.needs.Reach) == 0 {
		r.Passf("no other nodes to connect to")
	}
}

// nameServers reads resolv.conf(5). The kubelet passes it to pods, and CoreDNS forwards to its servers.
func (p probes) nameServers(_ context.Context, r *Reporter) {
	text, err := fs.ReadFile(p.host.Root, "etc/resolv.conf")
	if errors.Is(err, fs.ErrNotExist) {
		r.Warnf("create one; it may be empty if there is no name server", "there is no /etc/resolv.conf; the kubelet needs it for pods")
		return
	}
	if err != nil {
		r.unknown(err)
		return
	}
	var servers, loops []string
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "nameserver" {
			servers = append(servers, f[1])
			if a, err := netip.ParseAddr(f[1]); err == nil && a.IsLoopback() {
				loops = append(loops, f[1])
			}
		}
	}
	_, resolved := fs.Stat(p.host.Root, "run/systemd/resolve/resolv.conf") // the install configures the kubelet with this file
	switch {
	case len(loops) > 0 && resolved != nil:
		r.Warnf("put the upstream name servers into /etc/resolv.conf", "the name server %s is a loopback address; in a pod it means the pod, and CoreDNS would query itself forever", strings.Join(loops, ", "))
	case len(servers) == 0:
		r.Passf("none")
	default:
		r.Passf("%s", strings.Join(servers, ", "))
	}
}

// firewall warns about an active firewall, which may block traffic between nodes.
func (p probes) firewall(_ context.Context, r *Reporter) {
	var active []string
	if p.runs("firewalld") {
		active = append(active, "firewalld")
	}
	if text, err := fs.ReadFile(p.host.Root, "etc/ufw/ufw.conf"); err == nil && strings.Contains("\n"+string(text), "\nENABLED=yes") {
		active = append(active, "ufw")
	}
	hint := "open TCP 6443, 6445, 2379, 2380, 10250, 10257, 10259 and the ports of the pod network (flannel: UDP 8472) between the nodes, and allow the pod network; " +
		"then set firewalldConfig.bypassFirewalldWarning or ufwConfig.bypassUFWWarning"
	names := strings.Join(active, " and ")
	switch {
	case len(active) == 0:
		r.Passf("neither firewalld nor ufw is active")
	case p.needs.Firewall == HandlingDone:
		r.Passf("%s; the install allows the cluster's traffic, unless the Installer forbids it", names)
	case p.needs.Firewall == HandlingRefused:
		r.Failf(hint, "%s is active, and the Installer requires it to be off", names)
	default:
		r.Warnf(hint, "%s is active; it may block traffic between nodes and pods", names)
	}
}

// runs reports whether systemd runs a service. A running service has a control group.
func (p probes) runs(service string) bool {
	for _, hierarchy := range []string{"", "systemd/"} {
		if _, err := fs.Stat(p.host.Root, "sys/fs/cgroup/"+hierarchy+"system.slice/"+service+".service"); err == nil {
			return true
		}
	}
	return false
}
