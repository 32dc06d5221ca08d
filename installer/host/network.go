package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"net/netip"
	"strings"
)

func routePrefix(destination, mask uint32) netip.Prefix {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], destination)
	return netip.PrefixFrom(netip.AddrFrom4(b), bits.OnesCount32(mask))
}

// virtual are the beginnings of interfaces that containers and pod networks make.
var virtual = []string{"docker", "br-", "cni", "flannel", "veth", "cali", "weave", "virbr", "kube-", "dummy", "antrea", "nodelocaldns"}

// nodeAddress is the first IPv4 address of a real interface. There may be no default route to prefer one by.
func nodeAddress() (netip.Addr, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return netip.Addr{}, err
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 || isVirtual(i.Name) {
			continue
		}
		addresses, err := i.Addrs()
		if err != nil {
			return netip.Addr{}, err
		}
		for _, a := range addresses {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
				return p.Addr(), nil
			}
		}
	}
	return netip.Addr{}, nil
}

func isVirtual(name string) bool {
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
			return netip.Prefix{}, fmt.Errorf("no IPv4 network of size /%d fits into %s", size, r)
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
	return netip.Prefix{}, errors.New("all networks of that size overlap routes of this host")
}

func overlapsAny(p netip.Prefix, others []netip.Prefix) bool {
	for _, o := range others {
		if p.Overlaps(o) {
			return true
		}
	}
	return false
}
