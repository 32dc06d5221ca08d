package network

import (
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/isolation"
)

func TestFreeSubnetAvoidsRoutes(t *testing.T) {
	prefixes := func(list string) (out []netip.Prefix) {
		for s := range strings.FieldsSeq(list) {
			out = append(out, netip.MustParsePrefix(s))
		}
		return out
	}
	for name, row := range map[string]struct {
		size               int
		ranges, used, want string
	}{
		"nothing in use":              {20, "10.32.0.0/16", "", "10.32.0.0/20"},
		"first is taken":              {20, "10.32.0.0/16", "10.32.4.0/24", "10.32.16.0/20"},
		"a larger network covers all": {20, "10.32.0.0/16 10.0.0.0/8", "10.32.0.0/12", "10.0.0.0/20"},
		"as large as the range":       {16, "10.32.0.0/16", "", "10.32.0.0/16"},
		"end of the address space":    {24, "255.255.255.0/24", "", "255.255.255.0/24"},
		"nothing behind the end":      {25, "255.255.255.0/24", "255.255.255.0/24", ""},
		"IPv6":                        {56, "fd00:c00b:1::/48", "10.0.0.0/8", "fd00:c00b:1::/56"},
		"IPv6, first is taken":        {56, "fd00:c00b:1::/48", "fd00:c00b:1:7::/64", "fd00:c00b:1:100::/56"},
		"IPv6, nearly all is taken":   {112, "fd00::/8", "fd00::/9 fd80::/10", "fdc0::/112"},
		"IPv6, all is taken":          {56, "fd00::/16 fc00::/16", "fc00::/7", ""},
		"a byte is full":              {24, "10.0.0.0/8", "10.0.0.0/16", "10.1.0.0/24"},
		"no room":                     {20, "10.32.0.0/16", "10.0.0.0/8", ""},
		"larger than the range":       {8, "10.32.0.0/16", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := FreeSubnet(row.size, prefixes(row.ranges), prefixes(row.used))
			if row.want == "" {
				if err == nil {
					t.Errorf("got %s", got)
				}
				return
			}
			if err != nil || got.String() != row.want {
				t.Errorf("got %s, %v; want %s", got, err, row.want)
			}
		})
	}
}

func TestAddressesOfThisHostAreKnown(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1": true, "203.0.113.77": false, "": false, "eth0": false, "$(id)": false} {
		if got := HasAddress(address); got != want {
			t.Errorf("%q: %t, want %t", address, got, want)
		}
	}
}

// read is the kernel's view of the test's network.
func read(t *testing.T) View {
	t.Helper()
	v, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// ip runs commands of ip(8) in the network of the test.
func ip(t *testing.T, commands ...string) {
	t.Helper()
	for _, command := range commands {
		isolation.Run(t, "", "ip", strings.Fields(command)...)
	}
}

func TestHostWithSeveralAddressesGetsOne(t *testing.T) {
	isolation.Network(t)
	for _, command := range []string{
		"link set lo up",
		"link add docker0 type bridge", "address add 172.17.0.1/16 dev docker0", "link set docker0 up",
		"link add nat0 type bridge", "address add 10.0.2.15/24 dev nat0", "link set nat0 up",
		"link add rack0 type bridge", "address add 192.0.2.7/32 dev rack0", "link set rack0 up", "route add 198.51.100.0/24 dev rack0",
	} {
		isolation.Run(t, "", "ip", strings.Fields(command)...)
	}
	address := func() string {
		t.Helper()
		view := read(t)
		inUse := view.InUse()
		for _, used := range []string{"10.0.2.0/24", "198.51.100.0/24", "192.0.2.7/32"} {
			if !slices.Contains(inUse, netip.MustParsePrefix(used)) {
				t.Errorf("%s counts as free: %v", used, inUse)
			}
		}
		return view.NodeAddress(false).Address.String()
	}
	if got := address(); got != "10.0.2.15" {
		t.Errorf("without a default route it is %s", got)
	}
	isolation.Run(t, "", "ip", strings.Fields("route add default dev nat0 metric 200")...)
	isolation.Run(t, "", "ip", strings.Fields("route add default dev rack0 metric 100")...)
	if got := address(); got != "192.0.2.7" {
		t.Errorf("with default routes it is %s", got)
	}
	for other, want := range map[string]string{
		"198.51.100.3:6443": "192.0.2.7", "10.0.2.2:6443": "10.0.2.15", "127.0.0.1:6443": "invalid IP", "172.17.0.9:6443": "invalid IP", "no port": "invalid IP",
	} {
		if got := read(t).AddressTowards(other, false).Address.String(); got != want {
			t.Errorf("towards %s it is %s, want %s", other, got, want)
		}
	}
}

func TestRoutesAreWrittenInIpSyntax(t *testing.T) {
	isolation.Network(t)
	ip(t, "link add lan0 type bridge", "link set lan0 up", "address add 192.168.0.7/24 dev lan0", "route add 10.96.0.0/22 dev lan0", "route add default via 192.168.0.1",
		"route add blackhole 10.40.0.0/16", "route add default via 192.168.0.2 table 9")
	var got []string
	for _, r := range read(t).mainTable() {
		got = append(got, r.String())
	}
	slices.Sort(got)
	if want := []string{"0.0.0.0/0 via 192.168.0.1 dev lan0", "10.96.0.0/22 dev lan0", "192.168.0.0/24 dev lan0"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestIPv6OnlyHostGetsAddress(t *testing.T) {
	isolation.Network(t)
	for _, command := range []string{
		"link set lo up",
		"link add cni0 type bridge", "address add fd00:1::1/64 dev cni0 nodad", "link set cni0 up",
		"link add lan0 type bridge", "link set lan0 up", "address add fd00:2::7/64 dev lan0 nodad",
		"link add rack0 type bridge", "link set rack0 up", "address add fd00:3::7/64 dev rack0 nodad", "-6 route add fd00:4::/64 dev rack0",
		"-6 route add default dev lan0 table 77", "-6 route add unreachable fd00:5::/64", "address add fd00:2::8/64 dev lan0 nodad",
		"address add fd00:2::1/64 dev lan0 nodad preferred_lft 0",
	} {
		isolation.Run(t, "", "ip", strings.Fields(command)...)
	}
	address := func(six bool) string {
		t.Helper()
		view := read(t)
		inUse := view.InUse()
		for _, used := range []string{"fd00:2::/64", "fd00:4::/64", "fd00:3::7/128"} {
			if !slices.Contains(inUse, netip.MustParsePrefix(used)) {
				t.Errorf("%s counts as free: %v", used, inUse)
			}
		}
		if slices.ContainsFunc(inUse, func(p netip.Prefix) bool { return p.Addr().IsLinkLocalUnicast() || p.Bits() == 0 }) {
			t.Errorf("a network that everybody has counts as used: %v", inUse)
		}
		return view.NodeAddress(six).Address.String()
	}
	if got := address(true); got != "fd00:2::7" { // the oldest
		t.Errorf("without a default route it is %s", got)
	}
	var routes []string
	for _, r := range read(t).mainTable() {
		routes = append(routes, r.String())
	}
	slices.Sort(routes)
	if want := []string{"fd00:1::/64 dev cni0", "fd00:2::/64 dev lan0", "fd00:3::/64 dev rack0", "fd00:4::/64 dev rack0"}; !slices.Equal(routes, want) {
		t.Errorf("routes %q, want %q", routes, want)
	}
	isolation.Run(t, "", "ip", strings.Fields("-6 route add default via fd00:3::1 dev rack0")...)
	if got := address(true); got != "fd00:3::7" {
		t.Errorf("with a default route it is %s", got)
	}
	if got := address(false); got != "invalid IP" {
		t.Errorf("with IPv4 it is %s", got)
	}
	for other, want := range map[string]string{
		"[fd00:2::9]:6445": "fd00:2::7", "[fd00:9::9]:6445": "fd00:3::7", "[::1]:6445": "invalid IP", "[fd00:1::9]:6445": "invalid IP", "fd00:2::9": "invalid IP",
	} {
		if got := read(t).AddressTowards(other, true).Address.String(); got != want {
			t.Errorf("towards %s it is %s, want %s", other, got, want)
		}
	}
}

func TestNetworkLosesPodLinksAndRoutesOnly(t *testing.T) {
	isolation.Network(t)
	for _, link := range []string{"host0", "cni0", "cali1", "flannel.1", "cni-mine", "kube-net",
		"vethwe-bridge", "wireguard.cali", "vxlan-v6.calico", "lxc_health"} {
		isolation.Run(t, "", "ip", "link", "add", link, "type", "bridge")
		isolation.Run(t, "", "ip", "link", "set", link, "up")
	}
	isolation.Run(t, "", "ip", "address", "add", "192.0.2.1/24", "dev", "host0")
	isolation.Run(t, "", "ip", "route", "add", "default", "dev", "kube-net")
	for _, route := range []string{"10.96.0.0/22", "10.32.1.0/24", "10.50.0.0/16", "10.96.1.0/24"} {
		isolation.Run(t, "", "ip", "route", "add", route, "dev", "host0")
	}
	if err := RemoveLinks(t.Context(), io.Discard, []string{"cni-mine"}); err != nil {
		t.Fatal(err)
	}
	if err := RemoveRoutes(t.Context(), io.Discard, []string{"10.96.1.0/24 dev host0"}, []string{"10.96.0.0/22", "10.32.0.0/20"}); err != nil {
		t.Fatal(err)
	}
	got := isolation.Run(t, "", "ip", "-brief", "link") + isolation.Run(t, "", "ip", "route")
	for word, want := range map[string]bool{"host0": true, "cni-mine": true, "kube-net": true, "cni0": false, "cali1": false, "flannel.1": false,
		"vethwe-bridge": false, "wireguard.cali": false, "vxlan-v6.calico": false, "lxc_health": false,
		"10.50.0.0/16": true, "10.96.1.0/24": true, "192.0.2.0/24": true, "10.96.0.0/22": false, "10.32.1.0/24": false} {
		if strings.Contains(got, word) != want {
			t.Errorf("%s there: %t, want %t\n%s", word, !want, want, got)
		}
	}
}
