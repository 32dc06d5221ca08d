package install

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/host/network"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/spec"
)

func TestIPv6ClusterNetworksAreChosen(t *testing.T) {
	i := made(t, with(t, "kubernetes", ""))
	i.settings.ipv6 = true
	for name, row := range map[string]networksRow{
		"chosen":                {"", "", "", "10.0.0.0/8", "fd00:c00b:1::/56", "fd00:c00b:2::/112", ""},
		"in use":                {"", "", "", "fd00:c00b::/32", "fd00::/56", "fd00:0:0:100::/112", ""},
		"given":                 {"2001:db8:1::/48", "2001:db8:2::/108", "", "", "2001:db8:1::/48", "2001:db8:2::/108", ""},
		"a size":                {"", "", "/48", "", "fd00:c00b:1::/48", "fd00:c00b:2::/112", ""},
		"IPv4":                  {"10.32.0.0/20", "", "", "", "", "", "not an IPv6 network such as fd00:c00b:1::/56"},
		"only for a link":       {"fe80::/56", "", "", "", "", "", "not an IPv6 network"},
		"too large":             {"fd00::/40", "", "", "", "", "", "at least /48"},
		"too small":             {"fd00::/72", "", "", "", "", "", "at most /64"},
		"services for too many": {"", "fd00::/64", "", "", "", "", "at least /108"},
	} {
		t.Run(name, func(t *testing.T) { row.settle(t, i) })
	}
}

// chosen is an address without alternatives.
func chosen(address netip.Addr) network.Choice {
	return network.Choice{Candidate: network.Candidate{Address: address}}
}

func TestDualStackClusterNetworksAreChosen(t *testing.T) {
	i := made(t, with(t, "kubernetes", ""))
	i.settings.address6 = "fd00::7"
	for name, row := range map[string]networksRow{
		"chosen":          {"", "", "", "", "10.32.0.0/20,fd00:c00b:1::/56", "10.96.0.0/22,fd00:c00b:2::/112", ""},
		"in use":          {"", "", "", "fd00:c00b::/32", "10.32.0.0/20,fd00::/56", "10.96.0.0/22,fd00:0:0:100::/112", ""},
		"one is given":    {"10.64.0.0/16", "", "", "", "10.64.0.0/16,fd00:c00b:1::/56", "10.96.0.0/22,fd00:c00b:2::/112", ""},
		"both are given":  {"10.64.0.0/16,fd01::/56", "10.96.0.0/20,fd02::/112", "", "", "10.64.0.0/16,fd01::/56", "10.96.0.0/20,fd02::/112", ""},
		"sizes":           {"", "", "/16,/48", "", "10.32.0.0/16,fd00:c00b:1::/48", "10.96.0.0/22,fd00:c00b:2::/112", ""},
		"the wrong order": {"fd01::/56,10.64.0.0/16", "", "", "", "", "", "not a private IPv4 network"},
		"IPv4 twice":      {"10.64.0.0/16,10.65.0.0/16", "", "", "", "", "", "not an IPv6 network"},
	} {
		t.Run(name, func(t *testing.T) { row.settle(t, i) })
	}
}

func TestDualStackNodesHaveBothAddresses(t *testing.T) {
	const both = "10.32.0.0/20,fd00:c00b:1::/56"
	six := netip.MustParseAddr("fd00::7")
	for name, row := range map[string]struct {
		kurl     string
		address6 netip.Addr
		pods     string // of the existing cluster
		dual     bool
		refused  string
	}{
		"asked for":                   {"dualStack: true", six, "", true, ""},
		"not asked for":               {"", six, "", false, ""},
		"no IPv6":                     {"dualStack: true", netip.Addr{}, "", false, "no interface of this host has an IPv6 address"},
		"IPv6 alone, too":             {"dualStack: true, ipv6: true", six, "", false, "leave out one of them"},
		"a dual-stack cluster":        {"", six, both, true, ""},
		"one, on a host without":      {"", netip.Addr{}, both, false, "no interface of this host has an IPv6 address"},
		"for a cluster of one kind":   {"dualStack: true", six, "10.32.0.0/20", false, "the cluster has IPv4 addresses alone"},
		"a cluster of the one kind":   {"", six, "10.32.0.0/20", false, ""},
		"asked for in such a cluster": {"dualStack: true", six, both, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			i := made(t, with(t, "kubernetes", ""))
			s, err := spec.Parse("installer.yaml", strings.NewReader("apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: x}\nspec: {kubernetes: {version: 1.36.3}, kurl: {"+row.kurl+"}}\n"))
			if err != nil {
				t.Fatal(err)
			}
			i.spec, i.facts.Address, i.facts.Address6 = s, chosen(netip.MustParseAddr("192.0.2.7")), chosen(row.address6)
			if row.pods != "" {
				finished(t, i, lifecycle.Step{ID: node.NetworkStep}, node.ClusterNetworks{Pods: row.pods}.State())
				finished(t, i, lifecycle.Step{ID: node.InitStep, Inputs: initInputs}, nil)
			}
			if err := i.chooseAddress(); err != nil {
				t.Fatal(err)
			}
			i.settings = i.newSettings()
			if i.settings.dual() != row.dual {
				t.Errorf("second address %q", i.settings.address6)
			}
			if err := i.checkAddress(); (err == nil) != (row.refused == "") || err != nil && !strings.Contains(err.Error(), row.refused) {
				t.Errorf("got %v, want %q", err, row.refused)
			}
		})
	}
}

func TestAddressMatchesRequestedFamily(t *testing.T) {
	six := netip.MustParseAddr("fd00::7")
	for name, row := range map[string]struct {
		kurl, address string
		address6      netip.Addr
		pods          string // of the existing cluster
		refused       string
	}{
		"IPv4":                           {"", "192.0.2.7", netip.Addr{}, "", ""},
		"IPv6":                           {"ipv6: true", "fd00::7", six, "", ""},
		"only IPv6, not asked for":       {"", "", six, "", "set kurl.ipv6"},
		"an IPv6 address, not asked for": {"", "fd00::7", six, "", "set kurl.ipv6, too"},
		"an IPv4 address for IPv6":       {"ipv6: true", "192.0.2.7", six, "", "not an IPv6 address"},
		"no IPv6":                        {"ipv6: true", "", netip.Addr{}, "", "no interface of this host has an IPv6 address"},
		"a cluster with IPv6":            {"", "fd00::7", six, "fd00:c00b:1::/56", ""},
		"IPv6 for a cluster without":     {"ipv6: true", "192.0.2.7", six, "10.32.0.0/20", "a cluster keeps its kind of addresses"},
		"IPv4 in a cluster with IPv6":    {"", "192.0.2.7", six, "fd00:c00b:1::/56", "the cluster has IPv6 addresses, and 192.0.2.7 of this host is none"},
		"no address at all":              {"", "", netip.Addr{}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			i := made(t, with(t, "kubernetes", ""))
			s, err := spec.Parse("installer.yaml", strings.NewReader("apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: x}\nspec: {kubernetes: {version: 1.36.3}, kurl: {"+row.kurl+"}}\n"))
			if err != nil {
				t.Fatal(err)
			}
			i.spec, i.facts.Address6, i.settings = s, chosen(row.address6), settings{address: row.address, ipv6: strings.Contains(row.address, ":")}
			if row.pods != "" {
				finished(t, i, lifecycle.Step{ID: node.NetworkStep}, lifecycle.State{node.PodNetwork: row.pods})
				finished(t, i, lifecycle.Step{ID: node.InitStep, Inputs: initInputs}, nil)
			}
			if err := i.checkAddress(); (err == nil) != (row.refused == "") || err != nil && !strings.Contains(err.Error(), row.refused) {
				t.Errorf("got %v, want %q", err, row.refused)
			}
		})
	}
}

// TestAmbiguousAddressIsPromptedFor uses a host without a default route (k0sproject/k0s#4775).
func TestAmbiguousAddressIsPromptedFor(t *testing.T) {
	first, second := network.Candidate{Address: netip.MustParseAddr("198.51.100.7"), Link: "eth0"}, network.Candidate{Address: netip.MustParseAddr("192.0.2.7"), Link: "br-mgmt"}
	i := made(t, with(t, "kubernetes", ""))
	i.facts.Address = network.Choice{Candidate: first, Why: "no default route decides, and it is the first one", Others: []network.Candidate{second}}
	check := func(want string) {
		t.Helper()
		if err := i.chooseAddress(); err != nil {
			t.Fatal(err)
		}
		i.settings = i.newSettings()
		report, err := preflight.Run(t.Context(), []preflight.Check{{Name: "address", Probe: i.addressCheck}})
		if err != nil {
			t.Fatal(err)
		}
		if got := report.Results[0].String(); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	check("no interface has 198.51.100.7")
	i.facts.Address.Candidate = network.Candidate{Address: netip.MustParseAddr("127.0.0.1"), Link: "lo"} // which every host has
	check("127.0.0.1 (lo): no default route decides, and it is the first one; it could also be 192.0.2.7 (br-mgmt); if that is wrong, add private-address=192.0.2.7")
	i.facts.Address.Candidate = first
	i.options.ChooseAddress = func(c network.Choice) (network.Candidate, error) { return c.Others[0], nil }
	if err := i.chooseAddress(); err != nil || i.newSettings().address != "192.0.2.7" || len(i.address.Others) > 0 {
		t.Errorf("the answer counts for nothing: %s, %v", i.address, err)
	}
	i.options.ChooseAddress = func(network.Choice) (network.Candidate, error) { return second, errors.New("not one of them") }
	if err := i.chooseAddress(); err == nil {
		t.Error("a wrong answer counts for something")
	}
	i.spec.Sections = append(i.spec.Sections, spec.Section{Key: "kurl", Options: spec.Options{"privateAddress": "192.0.2.8"}})
	if err := i.chooseAddress(); err != nil || i.newSettings().address != "192.0.2.8" {
		t.Errorf("asked although the Installer names an address: %v", err)
	}
}

// TestAddressOfEarlierRunIsKept changes the routes between two runs.
func TestAddressOfEarlierRunIsKept(t *testing.T) {
	i := made(t, with(t, "kubernetes", ""))
	i.options.Root = t.TempDir()
	i.facts.Address = chosen(netip.MustParseAddr("192.0.2.7"))
	if err := os.MkdirAll(node.StateDir(i.options.Root), 0o700); err != nil {
		t.Fatal(err)
	}
	i.settings.address = "127.0.0.1" // which every host has
	if err := i.writeRun(); err != nil {
		t.Fatal(err)
	}
	choose := func() string {
		t.Helper()
		if err := i.chooseAddress(); err != nil {
			t.Fatal(err)
		}
		return i.address.Address.String()
	}
	if got := choose(); got != "192.0.2.7" {
		t.Errorf("before the first step it is %s", got)
	}
	finished(t, i, lifecycle.Step{ID: "node/sealift"}, nil)
	if got := choose(); got != "127.0.0.1" {
		t.Errorf("after it, it is %s", got)
	}
	i.settings.address = "203.0.113.9" // which no host has
	if err := i.writeRun(); err != nil {
		t.Fatal(err)
	}
	if got := choose(); got != "192.0.2.7" {
		t.Errorf("when the host has lost the address, it is %s", got)
	}
}
