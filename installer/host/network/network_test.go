package network

import (
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/testgrid/netns"
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

func TestAddressOfAHostWithSeveral(t *testing.T) {
	netns.ForTest(t)
	for _, command := range []string{
		"link set lo up",
		"link add docker0 type bridge", "address add 172.17.0.1/16 dev docker0", "link set docker0 up",
		"link add nat0 type bridge", "address add 10.0.2.15/24 dev nat0", "link set nat0 up",
		"link add rack0 type bridge", "address add 192.0.2.7/32 dev rack0", "link set rack0 up", "route add 198.51.100.0/24 dev rack0",
	} {
		netns.Run(t, "", "ip", strings.Fields(command)...)
	}
	address := func() string {
		t.Helper()
		routes, err := Routes()
		if err != nil {
			t.Fatal(err)
		}
		inUse, err := InUse(routes)
		if err != nil {
			t.Fatal(err)
		}
		address, err := NodeAddress(routes, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, used := range []string{"10.0.2.0/24", "198.51.100.0/24", "192.0.2.7/32"} {
			if !slices.Contains(inUse, netip.MustParsePrefix(used)) {
				t.Errorf("%s counts as free: %v", used, inUse)
			}
		}
		return address.String()
	}
	if got := address(); got != "10.0.2.15" {
		t.Errorf("without a default route it is %s", got)
	}
	netns.Run(t, "", "ip", strings.Fields("route add default dev nat0 metric 200")...)
	netns.Run(t, "", "ip", strings.Fields("route add default dev rack0 metric 100")...)
	if got := address(); got != "192.0.2.7" {
		t.Errorf("with default routes it is %s", got)
	}
	for other, want := range map[string]string{
		"198.51.100.3:6443": "192.0.2.7", "10.0.2.2:6443": "10.0.2.15", "127.0.0.1:6443": "invalid IP", "172.17.0.9:6443": "invalid IP", "no port": "invalid IP",
	} {
		if got := AddressTowards(other, false).String(); got != want {
			t.Errorf("towards %s it is %s, want %s", other, got, want)
		}
	}
}

func TestRoutesReadAsIpTakesThem(t *testing.T) {
	for line, want := range map[string]string{
		"eth0 0000600A 00000000 0001 0 0 0 00FCFFFF": "10.96.0.0/22 dev eth0",
		"eth0 00000000 0100A8C0 0003 0 0 0 00000000": "0.0.0.0/0 via 192.168.0.1 dev eth0",
	} {
		if r, ok, err := parseRoute4(strings.Fields(line)); err != nil || !ok || r.String() != want {
			t.Errorf("%s: got %s, %t, %v; want %s", line, r, ok, err, want)
		}
	}
}

func TestAddressOfAHostWithIPv6Alone(t *testing.T) {
	netns.ForTest(t)
	for _, command := range []string{
		"link set lo up",
		"link add cni0 type bridge", "address add fd00:1::1/64 dev cni0 nodad", "link set cni0 up",
		"link add lan0 type bridge", "link set lan0 up", "address add fd00:2::7/64 dev lan0 nodad",
		"link add rack0 type bridge", "link set rack0 up", "address add fd00:3::7/64 dev rack0 nodad", "-6 route add fd00:4::/64 dev rack0",
		"-6 route add default dev lan0 table 77", "-6 route add unreachable fd00:5::/64", "address add fd00:2::8/64 dev lan0 nodad",
		"address add fd00:2::1/64 dev lan0 nodad preferred_lft 0",
	} {
		netns.Run(t, "", "ip", strings.Fields(command)...)
	}
	address := func(six bool) string {
		t.Helper()
		routes, err := Routes()
		if err != nil {
			t.Fatal(err)
		}
		inUse, err := InUse(routes)
		if err != nil {
			t.Fatal(err)
		}
		for _, used := range []string{"fd00:2::/64", "fd00:4::/64", "fd00:3::7/128"} {
			if !slices.Contains(inUse, netip.MustParsePrefix(used)) {
				t.Errorf("%s counts as free: %v", used, inUse)
			}
		}
		if slices.ContainsFunc(inUse, func(p netip.Prefix) bool { return p.Addr().IsLinkLocalUnicast() || p.Bits() == 0 }) {
			t.Errorf("a network that everybody has counts as used: %v", inUse)
		}
		address, err := NodeAddress(routes, six)
		if err != nil {
			t.Fatal(err)
		}
		return address.String()
	}
	if got := address(true); got != "fd00:2::7" { // the oldest
		t.Errorf("without a default route it is %s", got)
	}
	routes, err := Routes()
	if err != nil {
		t.Fatal(err)
	}
	var read []string
	for _, r := range routes {
		read = append(read, r.String())
	}
	slices.Sort(read)
	if want := []string{"fd00:1::/64 dev cni0", "fd00:2::/64 dev lan0", "fd00:3::/64 dev rack0", "fd00:4::/64 dev rack0"}; !slices.Equal(read, want) {
		t.Errorf("routes %q, want %q", read, want)
	}
	netns.Run(t, "", "ip", strings.Fields("-6 route add default via fd00:3::1 dev rack0")...)
	if got := address(true); got != "fd00:3::7" {
		t.Errorf("with a default route it is %s", got)
	}
	if got := address(false); got != "invalid IP" {
		t.Errorf("with IPv4 it is %s", got)
	}
	for other, want := range map[string]string{
		"[fd00:2::9]:6445": "fd00:2::7", "[fd00:9::9]:6445": "fd00:3::7", "[::1]:6445": "invalid IP", "[fd00:1::9]:6445": "invalid IP", "fd00:2::9": "invalid IP",
	} {
		if got := AddressTowards(other, true).String(); got != want {
			t.Errorf("towards %s it is %s, want %s", other, got, want)
		}
	}
}

func FuzzRoutes(f *testing.F) {
	f.Add("eth0\t0000600A\t00000000\t0001\t0\t0\t0\t00FCFFFF\t0\t0\t0")
	f.Add("Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask")
	f.Fuzz(func(t *testing.T, line string) {
		if r, ok, err := parseRoute4(strings.Fields(line)); ok && err == nil && (!r.destination.IsValid() || r.String() == "") {
			t.Errorf("%q is %+v", line, r)
		}
		_ = parsePassing(line)
	})
}

func TestNetworkLosesPodLinksAndRoutesAlone(t *testing.T) {
	netns.ForTest(t)
	for _, link := range []string{"host0", "cni0", "cali1", "flannel.1", "cni-mine"} {
		netns.Run(t, "", "ip", "link", "add", link, "type", "bridge")
		netns.Run(t, "", "ip", "link", "set", link, "up")
	}
	netns.Run(t, "", "ip", "address", "add", "192.0.2.1/24", "dev", "host0")
	for _, route := range []string{"10.96.0.0/22", "10.32.1.0/24", "10.50.0.0/16", "10.96.1.0/24"} {
		netns.Run(t, "", "ip", "route", "add", route, "dev", "host0")
	}
	if err := RemoveLinks(t.Context(), io.Discard, []string{"cni-mine"}); err != nil {
		t.Fatal(err)
	}
	if err := RemoveRoutes(t.Context(), io.Discard, []string{"10.96.1.0/24 dev host0"}, []string{"10.96.0.0/22", "10.32.0.0/20"}); err != nil {
		t.Fatal(err)
	}
	got := netns.Run(t, "", "ip", "-brief", "link") + netns.Run(t, "", "ip", "route")
	for word, want := range map[string]bool{"host0": true, "cni-mine": true, "cni0": false, "cali1": false, "flannel.1": false,
		"10.50.0.0/16": true, "10.96.1.0/24": true, "192.0.2.0/24": true, "10.96.0.0/22": false, "10.32.1.0/24": false} {
		if strings.Contains(got, word) != want {
			t.Errorf("%s there: %t, want %t\n%s", word, !want, want, got)
		}
	}
}
