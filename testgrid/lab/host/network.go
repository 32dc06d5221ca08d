package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The networks where hosts live, with IPv4 or with IPv6. They overlap neither the pod networks (10.32.0.0/20, 10.244.0.0/16,
// fd00:c00b:1::/56) nor the service networks (10.96.0.0/12, fd00:c00b:2::/112) that clusters use by default.
var (
	network4 = netip.MustParsePrefix("10.90.0.0/16")
	network6 = netip.MustParsePrefix("fd00:5ea:11f7::/64")
)

// networkOf returns the network with IPv6 or IPv4.
func networkOf(ipv6 bool) netip.Prefix {
	if ipv6 {
		return network6
	}
	return network4
}

// gateway is the first address of a network. No machine has it.
func gateway(network netip.Prefix) netip.Addr { return network.Addr().Next() }

// bridge is the name of the rack's bridge. An interface's name has at most 15 characters.
func (r *Rack) bridge() string { return "sealift-" + r.id }

// makeBridge creates the bridge unless it exists. The bridge is only a switch. The machine has no address on it, so it is
// not a gateway. IPv6 is off, because the kernel would add a link-local address.
func (r *Rack) makeBridge(ctx context.Context) error {
	name := r.bridge()
	if _, err := os.Stat(filepath.Join("/sys/class/net", name)); err == nil {
		return nil
	}
	if err := ip(ctx, "link", "add", "name", name, "type", "bridge"); err != nil {
		return err
	}
	err := os.WriteFile(filepath.Join("/proc/sys/net/ipv6/conf", name, "disable_ipv6"), []byte("1"), 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // no IPv6 in this kernel
		return fmt.Errorf("keep the machine off the lab's network: %w", err)
	}
	return ip(ctx, "link", "set", "dev", name, "up")
}

// dropBridgeIfUnused removes the bridge without hosts. The caller must hold the rack's lock.
func (r *Rack) dropBridgeIfUnused(ctx context.Context) error {
	hosts, err := r.List()
	if err != nil || len(hosts) > 0 {
		return err
	}
	if _, err := os.Stat(filepath.Join("/sys/class/net", r.bridge())); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return ip(ctx, "link", "delete", "dev", r.bridge())
}

// freeAddress returns the lowest unused address of a network. The caller must hold the rack's lock.
func (r *Rack) freeAddress(network netip.Prefix) (netip.Addr, error) {
	hosts, err := r.List()
	if err != nil {
		return netip.Addr{}, err
	}
	taken := map[netip.Addr]bool{}
	for _, h := range hosts {
		taken[h.state.Address], taken[h.state.Address6] = true, true
	}
	for a := gateway(network).Next(); network.Contains(a); a = a.Next() {
		if !taken[a] {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("the lab's network %s is full", network)
}

func ip(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
