package network

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Route is a unicast route to a network. A route with several next hops is one Route for each.
type Route struct {
	link        string
	destination netip.Prefix
	gateway     netip.Addr // 0.0.0.0 or :: when there is none
	source      netip.Addr // that the kernel prefers for connections; not valid if the route names none
	metric      int
	table       int
}

// String formats the route for ip-route(8).
func (r Route) String() string {
	if r.gateway.IsUnspecified() {
		return r.destination.String() + " dev " + r.link
	}
	return r.destination.String() + " via " + r.gateway.String() + " dev " + r.link
}

// Is6 reports whether it is an IPv6 route.
func (r Route) Is6() bool { return r.destination.Addr().Is6() }

// Routes reads the routes of the main table, those with IPv4 first.
func Routes() ([]Route, error) {
	v, err := Read()
	return v.mainTable(), err
}

func (v View) mainTable() []Route {
	return slices.DeleteFunc(slices.Clone(v.routes), func(r Route) bool { return r.table != unix.RT_TABLE_MAIN })
}

// readRoutes reads the routes of all tables but the kernel's own, the preferred ones of a destination first.
func readRoutes(links map[int]string) (found []Route, err error) {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		all, err := netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
		if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) { // a kernel without IPv6
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("ask the kernel for its routes: %w", err)
		}
		slices.SortStableFunc(all, func(a, b netlink.Route) int { return a.Priority - b.Priority })
		for _, r := range all {
			if r.Type == unix.RTN_UNICAST && r.Table != unix.RT_TABLE_LOCAL {
				found = append(found, hops(r, family, links)...)
			}
		}
	}
	return found, nil
}

// hops returns the usable next hops of a route. Networks that every host has, and those of the loopback interface, are left out.
func hops(r netlink.Route, family int, links map[int]string) (found []Route) {
	none := netip.IPv4Unspecified()
	if family == netlink.FAMILY_V6 {
		none = netip.IPv6Unspecified()
	}
	route := Route{destination: netip.PrefixFrom(none, 0), metric: r.Priority, table: r.Table}
	if r.Dst != nil {
		address, _ := netip.AddrFromSlice(r.Dst.IP)
		length, _ := r.Dst.Mask.Size()
		route.destination = netip.PrefixFrom(address, length)
		if family == netlink.FAMILY_V4 {
			route.destination = netip.PrefixFrom(address.Unmap(), length)
		}
	}
	if a := route.destination.Addr(); !route.destination.IsValid() || a.IsLinkLocalUnicast() && a.Is6() || a.IsMulticast() {
		return nil
	}
	if source, ok := netip.AddrFromSlice(r.Src); ok {
		route.source = source.Unmap()
	}
	nexthops := r.MultiPath
	if len(nexthops) == 0 {
		nexthops = []*netlink.NexthopInfo{{LinkIndex: r.LinkIndex, Gw: r.Gw, Via: r.Via, Flags: r.Flags}}
	}
	for _, hop := range nexthops {
		one := route
		one.link, one.gateway = links[hop.LinkIndex], none
		if gateway, ok := netip.AddrFromSlice(hop.Gw); ok && family == netlink.FAMILY_V4 {
			one.gateway = gateway.Unmap()
		} else if ok {
			one.gateway = gateway
		}
		if one.link != "" && hop.Flags&unix.RTNH_F_DEAD == 0 { // the interface may be gone by now
			found = append(found, one)
		}
	}
	return found
}

// private are the networks from which those of a cluster are chosen, and those that sites route as a whole.
var private = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("fc00::/7"),
}

// isDefault reports whether a route covers everything: a default route, or one of the wider halves, quarters and so on that a VPN adds.
// Such a route holds a private network with others around it, so it does not say which private networks are behind it.
func (r Route) isDefault() bool {
	return r.destination.Bits() == 0 || slices.ContainsFunc(private, func(p netip.Prefix) bool {
		return r.destination.Bits() < p.Bits() && r.destination.Contains(p.Addr())
	})
}

// InUse returns the networks of routes in the main table, and single addresses: those of the host itself, which may have no route,
// and those of gateways. Routes that lead to everything are left out.
func (v View) InUse() (found []netip.Prefix) {
	for _, r := range v.mainTable() {
		if !r.isDefault() {
			found = append(found, r.destination)
		}
		if !r.gateway.IsUnspecified() && !r.gateway.IsLinkLocalUnicast() {
			found = append(found, netip.PrefixFrom(r.gateway, r.gateway.BitLen()))
		}
	}
	for _, l := range v.links {
		for _, a := range l.addresses {
			found = append(found, netip.PrefixFrom(a.Addr(), a.Addr().BitLen()))
		}
	}
	return found
}

// Attached returns the networks that the interfaces of this host are in.
func (v View) Attached() (found []netip.Prefix) {
	for _, l := range v.links {
		for _, a := range l.addresses {
			found = append(found, a.Masked())
		}
	}
	return found
}
