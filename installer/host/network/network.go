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

// Route is a route of the main table.
type Route struct {
	link        string
	destination netip.Prefix
	gateway     netip.Addr // 0.0.0.0 or :: when there is none
}

// String is the route as ip-route(8) takes it.
func (r Route) String() string {
	if r.gateway.IsUnspecified() {
		return r.destination.String() + " dev " + r.link
	}
	return r.destination.String() + " via " + r.gateway.String() + " dev " + r.link
}

// parseRoute4 reads the fields of a line of /proc/net/route, proc_net(5); ok is false for its heading.
func parseRoute4(fields []string) (r Route, ok bool, err error) {
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

// Routes reads the routes of the main table, those with IPv4 first.
func Routes() ([]Route, error) {
	four, err := readRoutes4()
	if err != nil {
		return nil, err
	}
	six, err := readRoutes6()
	return append(four, six...), err
}

// readRoutes4 reads the IPv4 routes of the main table.
func readRoutes4() ([]Route, error) {
	f, err := os.Open("/proc/thread-self/net/route") // the thread's network, which is not always that of the process
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var found []Route
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		r, ok, err := parseRoute4(strings.Fields(lines.Text()))
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

// NodeAddress is an address of a real interface, with IPv6 if six is true and with IPv4 if not: of the interface that the default
// route leaves by, as kubeadm would have it, or of the first one where there is no such route. Of several IPv6 addresses it is the oldest
// one that stays. It is invalid if there is none.
func NodeAddress(routes []Route, six bool) (netip.Addr, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return netip.Addr{}, err
	}
	// of several default routes the kernel lists the preferred one first
	if at := slices.IndexFunc(routes, func(r Route) bool { return r.destination.Bits() == 0 && r.Is6() == six }); at >= 0 {
		preferred := slices.IndexFunc(interfaces, func(i net.Interface) bool { return i.Name == routes[at].link })
		interfaces = slices.Concat(interfaces[max(preferred, 0):], interfaces)
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 || IsVirtual(i.Name) {
			continue
		}
		address, err := lasting(i, six)
		if err != nil || address.IsValid() {
			return address, err
		}
	}
	return netip.Addr{}, nil
}

// lasting is the address of an interface that other hosts can rely on: the first one with IPv4, or the oldest one with IPv6 that stays.
func lasting(i net.Interface, six bool) (netip.Addr, error) {
	found, err := addressesOf(i)
	if err != nil {
		return netip.Addr{}, err
	}
	passing := map[netip.Addr]bool{}
	if six {
		slices.Reverse(found) // the kernel lists the newest first
		if passing, err = passing6(); err != nil {
			return netip.Addr{}, err
		}
	}
	at := slices.IndexFunc(found, func(a netip.Addr) bool { return a.IsGlobalUnicast() && a.Is6() == six && !passing[a] })
	if at < 0 {
		return netip.Addr{}, nil
	}
	return found[at], nil
}

// addressesOf are the addresses of an interface that are not only for its link.
func addressesOf(i net.Interface) (found []netip.Addr, err error) {
	addresses, err := i.Addrs()
	for _, a := range addresses {
		if p, err := netip.ParsePrefix(a.String()); err == nil && (p.Addr().Is4() || !p.Addr().IsLinkLocalUnicast()) {
			found = append(found, p.Addr())
		}
	}
	return found, err
}

// AddressTowards is the address by which this host would talk to another at host:port, with IPv6 if six is true and with IPv4 if not:
// nothing is sent. It is invalid where it is no address of a real interface.
func AddressTowards(other string, six bool) netip.Addr {
	kind := "udp4"
	if six {
		kind = "udp6"
	}
	conn, err := net.Dial(kind, other)
	if err != nil {
		return netip.Addr{}
	}
	defer conn.Close()
	local, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil || !local.Addr().IsGlobalUnicast() || IsVirtual(InterfaceOf(local.Addr().String())) {
		return netip.Addr{}
	}
	if !six {
		return local.Addr()
	}
	i, err := net.InterfaceByName(InterfaceOf(local.Addr().String()))
	if err != nil {
		return netip.Addr{}
	}
	address, _ := lasting(*i, six) // the kernel prefers a temporary one
	return address
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
		if size < r.Bits() || size > r.Addr().BitLen()-2 {
			continue
		}
		for candidate := netip.PrefixFrom(r.Masked().Addr(), size); r.Contains(candidate.Addr()); {
			at := slices.IndexFunc(used, candidate.Overlaps)
			if at < 0 {
				return candidate, nil
			}
			taken := candidate
			if used[at].Bits() < size { // it has all networks up to its end
				taken = used[at]
			}
			candidate = netip.PrefixFrom(after(taken), size)
		}
	}
	return netip.Prefix{}, fmt.Errorf("no network of size /%d in %v is free of routes and addresses of this host", size, ranges)
}

// after is the first address behind a network. It is invalid if there is none.
func after(p netip.Prefix) netip.Addr {
	b, bit := p.Masked().Addr().AsSlice(), p.Bits()-1
	if bit < 0 {
		return netip.Addr{}
	}
	step := byte(1) << (7 - bit%8)
	for at := bit / 8; at >= 0; at-- {
		b[at] += step
		if b[at] >= step { // nothing to carry
			address, _ := netip.AddrFromSlice(b)
			return address
		}
		step = 1
	}
	return netip.Addr{}
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
