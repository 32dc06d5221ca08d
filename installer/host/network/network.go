// Package network knows the routes, interfaces and addresses of the host, and removes those of pod networks.
package network

import (
	"fmt"
	"net/netip"
	"slices"
)

// HasAddress reports whether an interface of this host has an address.
func HasAddress(address string) bool { return InterfaceOf(address) != "" }

// InterfaceOf names the interface that has an address; "" when none has.
func InterfaceOf(address string) string {
	wanted, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	v, err := Read()
	if err != nil {
		return ""
	}
	return v.Addresses()[wanted]
}

// FreeSubnet returns the first network of the given size in the ranges that no network in use overlaps.
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
