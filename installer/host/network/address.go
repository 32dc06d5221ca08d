package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// View is the kernel's view of the interfaces, addresses and routes of this host. It is the one place that knows which interface is
// virtual, and by which address other hosts reach this one.
type View struct {
	links  []link
	routes []Route
}

// link is an interface.
type link struct {
	name      string
	kind      string // as in rtnetlink(7): device for hardware, bridge, veth, dummy, wireguard
	up        bool
	loopback  bool
	addresses []netip.Prefix // with a wider scope than the link; with IPv6 the oldest first
	lasting   []netip.Prefix // those that other hosts can rely on
	below     []string       // ports of a bridge, bond or team, and the interface that a VLAN or macvlan is on
}

// Read asks the kernel.
func Read() (v View, err error) {
	all, err := netlink.LinkList()
	if err != nil {
		return v, fmt.Errorf("ask the kernel for its interfaces: %w", err)
	}
	names := map[int]string{}
	for _, l := range all {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	for _, l := range all {
		a := l.Attrs()
		one := link{name: a.Name, kind: l.Type(), loopback: a.Flags&net.FlagLoopback != 0, up: a.Flags&net.FlagUp != 0}
		for _, other := range all {
			if other.Attrs().MasterIndex == a.Index {
				one.below = append(one.below, other.Attrs().Name)
			}
		}
		if parent := names[a.ParentIndex]; parent != "" && slices.Contains([]string{"vlan", "macvlan", "macvtap", "ipvlan"}, one.kind) {
			one.below = append(one.below, parent)
		}
		if err := one.readAddresses(l); err != nil {
			return v, err
		}
		v.links = append(v.links, one)
	}
	v.routes, err = readRoutes(names)
	return v, err
}

// passing are the flags of temporary or unusable addresses: temporary ones for privacy, duplicates of another host's, and deprecated
// ones.
const passing = unix.IFA_F_TEMPORARY | unix.IFA_F_DADFAILED | unix.IFA_F_DEPRECATED

func (l *link) readAddresses(from netlink.Link) error {
	all, err := netlink.AddrList(from, netlink.FAMILY_ALL)
	if errors.Is(err, unix.ENODEV) { // gone by now
		return nil
	}
	if err != nil {
		return fmt.Errorf("ask the kernel for the addresses of %s: %w", l.name, err)
	}
	var four, six []netlink.Addr
	for _, a := range all {
		if a.IP.To4() != nil {
			four = append(four, a)
		} else {
			six = append([]netlink.Addr{a}, six...) // the kernel lists the newest first
		}
	}
	for _, a := range append(four, six...) {
		address, ok := netip.AddrFromSlice(a.IP)
		length, _ := a.Mask.Size()
		address = address.Unmap()
		if !ok || address.Is6() && address.IsLinkLocalUnicast() {
			continue
		}
		l.addresses = append(l.addresses, netip.PrefixFrom(address, length))
		if address.IsGlobalUnicast() && (address.Is4() || a.Flags&passing == 0) {
			l.lasting = append(l.lasting, netip.PrefixFrom(address, length))
		}
	}
	return nil
}

func (v View) link(name string) (link, bool) {
	at := slices.IndexFunc(v.links, func(l link) bool { return l.name == name })
	if at < 0 {
		return link{}, false
	}
	return v.links[at], true
}

// dockerBridge matches the names that Docker gives to bridges of networks that users made.
var dockerBridge = regexp.MustCompile(`^br-[0-9a-f]{12}$`)

// IsVirtual reports whether containers or pod networks of this host made an interface, so that no other host reaches it. Its name
// decides, unless a default route leaves through it or hardware is behind it: then an administrator chose the name.
func (v View) IsVirtual(name string) bool {
	named := IsPodLink(name) || strings.HasPrefix(name, "docker") || strings.HasPrefix(name, "podman") || dockerBridge.MatchString(name)
	return named && !v.isUplink(name) && !v.hasHardware(name, len(v.links))
}

func (v View) isUplink(name string) bool {
	return slices.ContainsFunc(v.routes, func(r Route) bool { return r.link == name && r.isDefault() })
}

// hasHardware reports whether an interface, or one below it, is hardware. depth bounds the search.
func (v View) hasHardware(name string, depth int) bool {
	l, ok := v.link(name)
	return ok && depth > 0 && (l.kind == "device" && !l.loopback || slices.ContainsFunc(l.below, func(lower string) bool { return v.hasHardware(lower, depth-1) }))
}

// Candidate is an address by which other hosts may reach this one.
type Candidate struct {
	Address netip.Addr `json:"address"`
	Link    string     `json:"link"`
}

func (c Candidate) String() string { return c.Address.String() + " (" + c.Link + ")" }

// Choice is the address by which other hosts reach this one. It is not valid if there is none.
type Choice struct {
	Candidate
	Why string `json:"why"` // a clause
	// Others could be meant as well: nothing on this host decides. They are empty where something does.
	Others []Candidate `json:"others,omitempty"`
}

// String names the address, and why it was chosen.
func (c Choice) String() string {
	if c.Why == "" {
		return c.Address.String()
	}
	return c.Candidate.String() + ": " + c.Why
}

// NodeAddress chooses the address of this host with IPv6 if six is true, and with IPv4 if not. The routes decide, whatever the interfaces
// are called: the default route of the main table, or else that of another one, or else one that covers everything, as with VPNs. On a
// host without any, it is that of the first interface that is not virtual. Of several IPv6 addresses it is the oldest one that stays.
func (v View) NodeAddress(six bool) Choice {
	for _, level := range []struct {
		why string
		fit func(Route) bool
	}{
		{"the default route leaves through it", func(r Route) bool { return r.destination.Bits() == 0 && r.table == unix.RT_TABLE_MAIN }},
		{"a default route of another table than the main one leaves through it", func(r Route) bool { return r.destination.Bits() == 0 }},
		{"a route to most addresses leaves through it", Route.isDefault},
	} {
		var defaults []Route
		for _, r := range v.routes {
			if r.Is6() == six && level.fit(r) {
				defaults = append(defaults, r)
			}
		}
		if c := v.chooseByRoutes(defaults, level.why, six); c.Address.IsValid() {
			return c
		}
	}
	return v.chooseByInterfaces(six)
}

// chooseByRoutes chooses the address of the first default route that has one. Those of the same metric could be meant as well.
func (v View) chooseByRoutes(defaults []Route, why string, six bool) (c Choice) {
	metric := 0
	for _, r := range defaults {
		all := v.routeCandidates(r, six)
		if len(all) == 0 || c.Address.IsValid() && r.metric != metric {
			continue
		}
		if !c.Address.IsValid() {
			c, metric = Choice{Candidate: all[0], Why: why}, r.metric
		}
		c.Others = append(c.Others, all...)
	}
	if l, _ := v.link(c.Link); l.kind == "dummy" { // leads nowhere: some hosts have such a route because programs require a default route
		c.Others = append(c.Others, v.chooseByInterfaces(six).all()...)
	}
	return c.distinct()
}

// routeCandidates returns the possible addresses of a default route: its preferred one, or those in the network of its gateway, or those of its
// interface. An interface without any borrows the address that the kernel takes.
func (v View) routeCandidates(r Route, six bool) []Candidate {
	if r.source.IsValid() && !r.source.IsUnspecified() {
		if name := v.Addresses()[r.source]; name != "" {
			return []Candidate{{r.source, name}}
		}
	}
	l, _ := v.link(r.link)
	if !l.up {
		return nil
	}
	all := l.candidates(six)
	if in := slices.IndexFunc(l.lasting, func(p netip.Prefix) bool { return !r.gateway.IsUnspecified() && p.Contains(r.gateway) }); in >= 0 {
		all = []Candidate{{l.lasting[in].Addr(), l.name}}
	}
	if len(all) == 0 {
		if a := sourceTowards(outside(six), six); a.IsGlobalUnicast() && !v.IsVirtual(v.Addresses()[a]) {
			all = []Candidate{{a, v.Addresses()[a]}}
		}
	}
	return all
}

// outside is an address that no host has (RFC 5737, RFC 3849), behind every default route.
func outside(six bool) string {
	if six {
		return "[2001:db8::1]:9"
	}
	return "192.0.2.1:9"
}

// candidates are the addresses of an interface that a node could use, at most one of each network. If there are others, an
// address with a full-length prefix is left out: it belongs to a service that moves between hosts.
func (l link) candidates(six bool) (found []Candidate) {
	var networks []netip.Prefix
	single := func(p netip.Prefix) bool { return p.IsSingleIP() }
	fit := slices.DeleteFunc(slices.Clone(l.lasting), func(p netip.Prefix) bool { return p.Addr().Is6() != six })
	if slices.ContainsFunc(fit, func(p netip.Prefix) bool { return !single(p) }) && !six {
		fit = slices.DeleteFunc(fit, single)
	}
	for _, p := range fit {
		if !slices.Contains(networks, p.Masked()) {
			networks, found = append(networks, p.Masked()), append(found, Candidate{p.Addr(), l.name})
		}
	}
	if six && len(found) > 1 { // interfaces have several as a rule
		found = found[:1]
	}
	return found
}

// chooseByInterfaces chooses an address if no route decides. Interfaces that likely lead to other hosts come first.
func (v View) chooseByInterfaces(six bool) (c Choice) {
	var all []Candidate
	rank := 0
	for _, l := range v.links {
		if !l.up || v.IsVirtual(l.name) {
			continue
		}
		found, its := l.candidates(six), l.rank()
		switch {
		case len(found) == 0 || len(all) > 0 && its > rank:
		case len(all) > 0 && its == rank:
			all = append(all, found...)
		default:
			all, rank = found, its
		}
	}
	if len(all) == 0 {
		return c
	}
	c = Choice{Candidate: all[0], Why: "no default route decides, and it is the only one", Others: all}.distinct()
	if len(c.Others) > 0 {
		c.Why = "no default route decides, and it is the first one"
	}
	return c
}

// rank is 0 for an interface that likely leads to other hosts, 1 for tunnels and addresses of the host as a whole, and 2 for
// interfaces of virtual machines and those that lead nowhere.
func (l link) rank() int {
	guests := []string{"virbr", "lxdbr", "lxcbr", "incusbr", "veth", "vnet", "vmnet", "vboxnet"}
	switch {
	case l.kind == "dummy", slices.ContainsFunc(guests, func(prefix string) bool { return strings.HasPrefix(l.name, prefix) }) && l.kind != "device":
		return 2
	case l.loopback, slices.Contains([]string{"wireguard", "tun", "tuntap", "ppp", "ipip", "ip6tnl", "gre", "ip6gre", "sit", "vti", "vti6", "xfrm"}, l.kind):
		return 1
	}
	return 0
}

func (c Choice) all() []Candidate {
	if !c.Address.IsValid() {
		return nil
	}
	return append([]Candidate{c.Candidate}, c.Others...)
}

// distinct removes the chosen address and duplicates from the others.
func (c Choice) distinct() Choice {
	var others []Candidate
	for _, o := range c.Others {
		if o.Address != c.Address && !slices.ContainsFunc(others, func(had Candidate) bool { return had.Address == o.Address }) {
			others = append(others, o)
		}
	}
	c.Others = others
	return c
}

// AddressTowards chooses the address by which this host talks to another at host:port, with IPv6 if six is true and with IPv4 if not:
// nothing is sent. It is invalid if the route leads to an interface of this host only.
func (v View) AddressTowards(other string, six bool) (c Choice) {
	address := sourceTowards(other, six)
	name := v.Addresses()[address]
	if !address.IsGlobalUnicast() || address.Is6() != six || name == "" || v.IsVirtual(name) {
		return c
	}
	if l, _ := v.link(name); six { // the kernel prefers a temporary one
		found := l.candidates(six)
		if len(found) == 0 {
			return c
		}
		address = found[0].Address
	}
	return Choice{Candidate: Candidate{address, name}, Why: "the route to " + other + " leaves through it"}
}

// sourceTowards is the address that the kernel takes for a connection; not valid if it finds no route.
func sourceTowards(other string, six bool) netip.Addr {
	family := "udp4"
	if six {
		family = "udp6"
	}
	conn, err := net.Dial(family, other)
	if err != nil {
		return netip.Addr{}
	}
	defer conn.Close()
	local, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return local.Addr().Unmap().WithZone("")
}

// DefaultLink names the interface of the preferred default route; "" if there is none.
func (v View) DefaultLink(six bool) string {
	for _, r := range v.mainTable() {
		if r.destination.Bits() == 0 && r.Is6() == six {
			return r.link
		}
	}
	return ""
}

// Addresses are the addresses of this host, with the names of their interfaces.
func (v View) Addresses() map[netip.Addr]string {
	own := map[netip.Addr]string{}
	for _, l := range v.links {
		for _, p := range l.addresses {
			own[p.Addr()] = l.name
		}
	}
	return own
}
