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
		r.Passf("not looked at: the cluster on this host may use them")
		return
	}
	var free []string
	for _, port := range p.needs.Ports {
		err := p.host.PortError(ctx, port)
		switch {
		case err == nil:
			free = append(free, strconv.Itoa(port))
		case errors.Is(err, syscall.EADDRINUSE):
			r.Failf(fmt.Sprintf("stop what listens there; ss -ltnp 'sport = :%d' names it", port), "port %d is in use", port)
		default:
			r.unknown(fmt.Errorf("port %d: %w", port, err))
		}
	}
	if len(free) == len(p.needs.Ports) {
		r.Passf("free: %s", strings.Join(free, ", "))
	}
}

// reach connects to what a joining node talks to.
func (p probes) reach(ctx context.Context, r *Reporter) {
	for _, address := range p.needs.Reach {
		if err := p.host.Dial(ctx, address); err != nil {
			r.Failf("see whether that node runs, and whether a firewall on it or between the two lets TCP through", "%s cannot be reached: %v", address, err)
			continue
		}
		r.Passf("%s answers", address)
	}
	if len(p.needs.Reach) == 0 {
		r.Passf("none to be reached")
	}
}

// nameServers reads resolv.conf(5). The kubelet gives it to pods, and CoreDNS asks the servers in it.
func (p probes) nameServers(_ context.Context, r *Reporter) {
	text, err := fs.ReadFile(p.host.Root, "etc/resolv.conf")
	if errors.Is(err, fs.ErrNotExist) {
		r.Warnf("make one; it may be empty where there is no name server", "there is no /etc/resolv.conf; the kubelet wants it for pods")
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
	_, resolved := fs.Stat(p.host.Root, "run/systemd/resolve/resolv.conf") // the kubelet is given this one
	switch {
	case len(loops) > 0 && resolved != nil:
		r.Warnf("name the servers behind it in /etc/resolv.conf", "the name server %s is this host itself; from a pod it is the pod, and CoreDNS would ask itself for ever", strings.Join(loops, ", "))
	case len(servers) == 0:
		r.Passf("none")
	default:
		r.Passf("%s", strings.Join(servers, ", "))
	}
}

// firewall warns of what would come between the nodes.
func (p probes) firewall(_ context.Context, r *Reporter) {
	var active []string
	if p.runs("firewalld") {
		active = append(active, "firewalld")
	}
	if text, err := fs.ReadFile(p.host.Root, "etc/ufw/ufw.conf"); err == nil && strings.Contains("\n"+string(text), "\nENABLED=yes") {
		active = append(active, "ufw")
	}
	hint := "open TCP 6443, 6445, 2379, 2380, 10250, 10257, 10259 and the ports of the pod network (flannel: UDP 8472) between the nodes, and let the pods' network through; " +
		"then say so with firewalldConfig.bypassFirewalldWarning or ufwConfig.bypassUFWWarning"
	names := strings.Join(active, " and ")
	switch {
	case len(active) == 0:
		r.Passf("none is active")
	case p.needs.Firewall == WallHandled:
		r.Passf("%s; the install lets the cluster through, unless the Installer says to leave it", names)
	case p.needs.Firewall == WallFails:
		r.Failf(hint, "%s is active, and the Installer wants none", names)
	default:
		r.Warnf(hint, "%s is active; it may stop what nodes and pods have to say to each other", names)
	}
}

// runs tells whether systemd has a service running: it has a control group then.
func (p probes) runs(service string) bool {
	for _, hierarchy := range []string{"", "systemd/"} {
		if _, err := fs.Stat(p.host.Root, "sys/fs/cgroup/"+hierarchy+"system.slice/"+service+".service"); err == nil {
			return true
		}
	}
	return false
}
