// Package network knows the routes, interfaces and addresses of the host, and removes those of pod networks.
package network

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math/bits"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Route is one line of /proc/net/route, proc_net(5).
type Route struct {
	link        string
	destination netip.Prefix
	gateway     netip.Addr // 0.0.0.0 when there is none
}

// String is the route as ip-route(8) takes it.
func (r Route) String() string {
	if r.gateway.IsUnspecified() {
		return r.destination.String() + " dev " + r.link
	}
	return r.destination.String() + " via " + r.gateway.String() + " dev " + r.link
}

// parseRoute reads the fields of a line; ok is false for its heading.
func parseRoute(fields []string) (r Route, ok bool, err error) {
	if len(fields) < 8 || fields[0] == "Iface" {
		return Route{}, false, nil
	}
	var numbers [3]uint32
	for i, column := range []int{1, 2, 7} { // hexadecimal in the byte order of the host
		n, err := strconv.ParseUint(fields[column], 16, 32)
		if err != nil {
			return Route{}, false, err
		}
		numbers[i] = uint32(n)
	}
	return Route{fields[0], netip.PrefixFrom(address(numbers[0]), bits.OnesCount32(numbers[2])), address(numbers[1])}, true, nil
}

// Routes reads the IPv4 routes of the main table.
func Routes() ([]Route, error) {
	f, err := os.Open("/proc/thread-self/net/route") // the thread's network, which is not always that of the process
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var found []Route
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		r, ok, err := parseRoute(strings.Fields(lines.Text()))
		if err != nil {
			return nil, fmt.Errorf("/proc/net/route: %w", err)
		}
		if ok {
			found = append(found, r)
		}
	}
	return found, lines.Err()
}

func address(n uint32) netip.Addr {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], n)
	return netip.AddrFrom4(b)
}

// virtual are the beginnings of interfaces that containers and pod networks make.
var virtual = []string{"docker", "br-", "cni", "flannel", "veth", "cali", "weave", "virbr", "kube-", "dummy", "antrea", "nodelocaldns"}

// NodeAddress is an IPv4 address of a real interface: of the one that the default route leaves by, as kubeadm would have it, or
// where there is no such route of the first.
func NodeAddress(routes []Route) (netip.Addr, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return netip.Addr{}, err
	}
	// of several default routes the kernel lists the preferred one first
	if at := slices.IndexFunc(routes, func(r Route) bool { return r.destination.Bits() == 0 }); at >= 0 {
		preferred := slices.IndexFunc(interfaces, func(i net.Interface) bool { return i.Name == routes[at].link })
		interfaces = slices.Concat(interfaces[max(preferred, 0):], interfaces)
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 || IsVirtual(i.Name) {
			continue
		}
		found, err := addressesOf(i)
		if err != nil {
			return netip.Addr{}, err
		}
		for _, address := range found {
			if address.IsGlobalUnicast() {
				return address, nil
			}
		}
	}
	return netip.Addr{}, nil
}

// addressesOf are the IPv4 addresses of an interface.
func addressesOf(i net.Interface) (found []netip.Addr, err error) {
	addresses, err := i.Addrs()
	for _, a := range addresses {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() {
			found = append(found, p.Addr())
		}
	}
	return found, err
}

// AddressTowards is the IPv4 address by which this host would talk to another at host:port: nothing is sent. It is invalid
// where that is no address of a real interface.
func AddressTowards(other string) netip.Addr {
	conn, err := net.Dial("udp4", other)
	if err != nil {
		return netip.Addr{}
	}
	defer conn.Close()
	local, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil || local.Addr().IsLoopback() || IsVirtual(InterfaceOf(local.Addr().String())) {
		return netip.Addr{}
	}
	return local.Addr()
}

// HasAddress says whether an interface of this host has an address.
func HasAddress(address string) bool { return InterfaceOf(address) != "" }

// Own are the addresses of this host, with the names of their interfaces.
func Own() (map[netip.Addr]string, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	own := map[netip.Addr]string{}
	for _, i := range interfaces {
		all, err := i.Addrs()
		if err != nil {
			return nil, err
		}
		for _, a := range all {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				own[p.Addr()] = i.Name
			}
		}
	}
	return own, nil
}

// InterfaceOf names the interface that has an address; "" when none has.
func InterfaceOf(address string) string {
	wanted, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	own, err := Own()
	if err != nil {
		return ""
	}
	return own[wanted]
}

// IsVirtual says whether containers or pod networks make interfaces of that name.
func IsVirtual(name string) bool {
	for _, prefix := range virtual {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// FreeSubnet gives the first network of the given size in the ranges that no network in use overlaps.
func FreeSubnet(size int, ranges, used []netip.Prefix) (netip.Prefix, error) {
	for _, r := range ranges {
		if !r.Addr().Is4() || size < r.Bits() || size > 30 {
			continue
		}
		step := uint64(1) << (32 - size)
		start := r.Masked().Addr().As4()
		first := uint64(binary.BigEndian.Uint32(start[:]))
		for at := first; at < first+uint64(1)<<(32-r.Bits()); at += step {
			var b [4]byte
			binary.BigEndian.PutUint32(b[:], uint32(at))
			candidate := netip.PrefixFrom(netip.AddrFrom4(b), size)
			if !overlapsAny(candidate, used) {
				return candidate, nil
			}
		}
	}
	return netip.Prefix{}, fmt.Errorf("no IPv4 network of size /%d in %v is free of routes and addresses of this host", size, ranges)
}

func overlapsAny(p netip.Prefix, others []netip.Prefix) bool {
	for _, o := range others {
		if p.Overlaps(o) {
			return true
		}
	}
	return false
}

// InUse returns the networks that routes lead to and the addresses of the host itself, which may have no route. A default route
// is left out: it does not say which networks are behind it.
func InUse(routes []Route) (found []netip.Prefix, err error) {
	for _, r := range routes {
		if r.destination.Bits() > 0 {
			found = append(found, r.destination)
		}
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, i := range interfaces {
		addresses, err := addressesOf(i)
		if err != nil {
			return nil, err
		}
		for _, address := range addresses {
			found = append(found, netip.PrefixFrom(address, address.BitLen()))
		}
	}
	return found, nil
}
