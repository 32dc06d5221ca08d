package network

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/isolation"
)

// port makes an Ethernet interface of a kind with an address.
func port(name, kind, address string) []string {
	return []string{"link add " + name + " type " + kind, "link set " + name + " up", "address add " + address + " dev " + name}
}

// TestDefaultRouteInterfaceIsNeverVirtual has the names of https://github.com/k0sproject/k0s/issues/4775 and their siblings,
// each beside a second network, and a host whose only interface it is. Virtual means nothing where the route decides
// (https://github.com/kubernetes/kubernetes/issues/61170).
func TestDefaultRouteInterfaceIsNeverVirtual(t *testing.T) {
	for _, name := range []string{"br-ex", "br-mgmt", "br-0123456789ab", "dummy0", "veth0", "virbr0", "docker0", "cni-uplink", "bond0", "team0", "wg0", "vlan7", "kube-net", "cilium_up", "lxdbr0"} {
		t.Run(name, func(t *testing.T) {
			isolation.Network(t)
			ip(t, port("eth1", "bridge", "198.51.100.7/24")...)
			ip(t, port("docker9", "bridge", "172.17.0.1/16")...)
			ip(t, port(name, "bridge", "192.0.2.7/24")...)
			ip(t, "address add fd00:2::7/64 dev "+name+" nodad", "route add default via 192.0.2.1", "-6 route add default via fd00:2::1 dev "+name)
			v := read(t)
			for six, want := range map[bool]string{false: "192.0.2.7", true: "fd00:2::7"} {
				if c := v.NodeAddress(six); c.Address.String() != want || c.Link != name || len(c.Others) > 0 || !strings.Contains(c.Why, "default route") {
					t.Errorf("got %s, others %v; want %s", c, c.Others, want)
				}
			}
			if v.IsVirtual(name) || !v.IsVirtual("docker9") {
				t.Errorf("virtual: %t, docker9 %t", v.IsVirtual(name), v.IsVirtual("docker9"))
			}
			if c := v.AddressTowards("192.0.2.9:6443", false); c.Address.String() != "192.0.2.7" {
				t.Errorf("towards a neighbour it is %s", c)
			}
		})
	}
}

func TestRoutesSelectAddress(t *testing.T) {
	eth0, eth1 := port("eth0", "bridge", "192.0.2.7/24"), port("eth1", "bridge", "198.51.100.7/24")
	for name, row := range map[string]struct {
		commands [][]string
		want     string // address (interface)
		why      string
		others   string
	}{
		"the lower metric":            {[][]string{eth0, eth1, {"route add default via 192.0.2.1 metric 200", "route add default via 198.51.100.1 metric 100"}}, "198.51.100.7 (eth1)", "the default route", ""},
		"equal next hops":             {[][]string{eth0, eth1, {"route add default nexthop via 192.0.2.1 nexthop via 198.51.100.1"}}, "192.0.2.7 (eth0)", "the default route", "198.51.100.7 (eth1)"},
		"another table":               {[][]string{eth0, eth1, {"route add default via 198.51.100.1 table 77"}}, "198.51.100.7 (eth1)", "another table", ""},
		"main before another table":   {[][]string{eth0, eth1, {"route add default via 192.0.2.1 metric 900", "route add default via 198.51.100.1 table 77"}}, "192.0.2.7 (eth0)", "the default route", ""},
		"a VPN's halves beside it":    {[][]string{eth0, port("tun7", "bridge", "10.8.0.2/24"), {"route add default via 192.0.2.1", "route add 0.0.0.0/1 dev tun7", "route add 128.0.0.0/1 dev tun7"}}, "192.0.2.7 (eth0)", "the default route", ""},
		"halves alone":                {[][]string{eth0, eth1, {"route add 0.0.0.0/1 via 198.51.100.1", "route add 128.0.0.0/1 via 198.51.100.1"}}, "198.51.100.7 (eth1)", "most addresses", ""},
		"the route's own source":      {[][]string{eth0, {"link set lo up", "address add 203.0.113.7/32 dev lo", "route add default via 192.0.2.1 src 203.0.113.7"}}, "203.0.113.7 (lo)", "the default route", ""},
		"the gateway's network":       {[][]string{eth0, {"address add 10.9.0.7/24 dev eth0", "route add default via 10.9.0.1"}}, "10.9.0.7 (eth0)", "the default route", ""},
		"two networks, no gateway":    {[][]string{eth0, {"address add 10.9.0.7/24 dev eth0", "route add default dev eth0"}}, "192.0.2.7 (eth0)", "the default route", "10.9.0.7 (eth0)"},
		"a service's moving address":  {[][]string{{"link add eth0 type bridge", "link set eth0 up", "address add 192.0.2.99/32 dev eth0", "address add 192.0.2.7/24 dev eth0", "route add default dev eth0"}}, "192.0.2.7 (eth0)", "the default route", ""},
		"unnumbered":                  {[][]string{{"link set lo up", "address add 203.0.113.7/32 dev lo", "link add eth0 type bridge", "link set eth0 up", "route add default dev eth0"}}, "203.0.113.7 (lo)", "the default route", ""},
		"none, two interfaces":        {[][]string{eth0, eth1}, "192.0.2.7 (eth0)", "no default route decides, and it is the first", "198.51.100.7 (eth1)"},
		"none, one beside containers": {[][]string{port("docker0", "bridge", "172.17.0.1/16"), port("br-0123456789ab", "bridge", "172.18.0.1/16"), port("br-mgmt", "bridge", "192.0.2.7/24")}, "192.0.2.7 (br-mgmt)", "the only one", ""},
		"none, one beside guests":     {[][]string{port("virbr0", "bridge", "192.168.122.1/24"), eth0}, "192.0.2.7 (eth0)", "the only one", ""},
		"none, guests alone":          {[][]string{port("virbr0", "bridge", "192.168.122.1/24")}, "192.168.122.1 (virbr0)", "the only one", ""},
		"containers alone":            {[][]string{port("docker0", "bridge", "172.17.0.1/16"), port("cni0", "bridge", "10.32.0.1/24")}, "", "", ""},
		"an interface that is down":   {[][]string{eth1, {"link add eth0 type bridge", "address add 192.0.2.7/24 dev eth0"}}, "198.51.100.7 (eth1)", "the only one", ""},
		"a macvlan":                   {[][]string{{"link add eth0 type bridge", "link set eth0 up", "link add link eth0 name macvlan0 type macvlan"}, {"link set macvlan0 up", "address add 192.0.2.7/24 dev macvlan0", "route add default via 192.0.2.1"}}, "192.0.2.7 (macvlan0)", "the default route", ""},
	} {
		t.Run(name, func(t *testing.T) {
			isolation.Network(t)
			for _, commands := range row.commands {
				ip(t, commands...)
			}
			c := read(t).NodeAddress(false)
			var others []string
			for _, o := range c.Others {
				others = append(others, o.String())
			}
			if got := strings.Join(others, " "); c.Address.IsValid() != (row.want != "") || row.want != "" && c.Candidate.String() != row.want || !strings.Contains(c.Why, row.why) || got != row.others {
				t.Errorf("got %s, others %q; want %s: %s, others %q", c, got, row.want, row.why, row.others)
			}
		})
	}
}

// TestDummyRouteDoesNotSelectAddress has the default route of https://docs.k3s.io/installation/airgap for hosts without one.
func TestDummyRouteDoesNotSelectAddress(t *testing.T) {
	at := func(name, kind, address string) link {
		p := netip.MustParsePrefix(address)
		return link{name: name, kind: kind, up: true, addresses: []netip.Prefix{p}, lasting: []netip.Prefix{p}}
	}
	v := View{links: []link{at("dummy0", "dummy", "203.0.113.254/31"), at("wg0", "wireguard", "10.7.0.1/24"), at("vlan7", "vlan", "198.51.100.7/24")}}
	if c := v.NodeAddress(false); c.Link != "vlan7" || len(c.Others) > 0 {
		t.Errorf("without a default route: %s, others %v", c, c.Others)
	}
	v.routes = []Route{{link: "dummy0", destination: netip.MustParsePrefix("0.0.0.0/0"), gateway: netip.MustParseAddr("203.0.113.255"), table: 254}}
	if c := v.NodeAddress(false); c.Link != "dummy0" || fmt.Sprint(c.Others) != "[198.51.100.7 (vlan7)]" {
		t.Errorf("with one: %s, others %v", c, c.Others)
	}
	v.routes[0].link, v.routes[0].gateway = "wg0", netip.IPv4Unspecified()
	if c := v.NodeAddress(false); c.Link != "wg0" || len(c.Others) > 0 {
		t.Errorf("through a tunnel: %s, others %v", c, c.Others)
	}
}

// TestHardwareInterfaceWithContainerNameIsNotVirtual names a real interface as Docker would.
func TestHardwareInterfaceWithContainerNameIsNotVirtual(t *testing.T) {
	v := View{links: []link{{name: "docker7", kind: "device"}, {name: "kube-br", kind: "bridge", below: []string{"bond7"}}, {name: "bond7", kind: "bond", below: []string{"docker7"}},
		{name: "docker0", kind: "bridge", below: []string{"veth1"}}, {name: "veth1", kind: "veth"}, {name: "cni0", kind: "bridge", below: []string{"cni0"}}}}
	for name, want := range map[string]bool{"docker7": false, "kube-br": false, "docker0": true, "cni0": true, "eth0": false, "flannel.1": true,
		"lxc_health": true, "lxcbr0": false} {
		if got := v.IsVirtual(name); got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
}

func TestHalfDefaultRoutesLeaveNetworksFree(t *testing.T) {
	isolation.Network(t)
	ip(t, port("tun7", "bridge", "10.8.0.2/24")...)
	ip(t, "address add fd00:8::2/64 dev tun7 nodad")
	for _, everything := range []string{"0.0.0.0/1", "128.0.0.0/1", "0.0.0.0/2", "172.0.0.0/8", "8.0.0.0/5", "192.0.0.0/3", "::/1", "8000::/1", "2000::/3", "f000::/4"} {
		family := "-4"
		if strings.Contains(everything, ":") {
			family = "-6"
		}
		ip(t, fmt.Sprintf("%s route add %s dev tun7", family, everything))
	}
	ip(t, "route add 10.0.0.0/8 dev tun7", "-6 route add fd00:9::/48 dev tun7", "route add default via 10.8.0.1", "route add 172.20.1.0/24 via 10.8.0.77")
	got := read(t).InUse()
	slices.SortFunc(got, func(a, b netip.Prefix) int { return strings.Compare(a.String(), b.String()) })
	got = slices.Compact(got)
	// 2000::/3 and ::/1 hold no private network, so no choice is among their addresses
	want := "[10.0.0.0/8 10.8.0.0/24 10.8.0.1/32 10.8.0.2/32 10.8.0.77/32 172.20.1.0/24 2000::/3 ::/1 fd00:8::/64 fd00:8::2/128 fd00:9::/48]"
	if fmt.Sprint(got) != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
}
