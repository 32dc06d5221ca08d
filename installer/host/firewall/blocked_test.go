package firewall

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/isolation"
)

func traffic() Traffic {
	return Traffic{Ports: []string{"6443/tcp", "2379:2380/tcp", "10250/tcp", "8472/udp"}, Pods: []netip.Prefix{netip.MustParsePrefix("10.32.0.0/20")}, PodLink: "cni0"}
}

// TestDroppingRulesAreFoundAndOpened returns the kernel rules as nftables.service, iptables-persistent and administrators leave them, runs the
// commands that preflight names, and looks again.
func TestDroppingRulesAreFoundAndOpened(t *testing.T) {
	const open = "iifname lo accept\nct state established,related accept\ntcp dport { 22, 6443, 2379-2380, 10250 } accept\nudp dport 8472 accept\n"
	input := func(policy, rules string) string {
		return "table inet filter {\nchain input {\ntype filter hook input priority 0; policy " + policy + ";\n" + rules + "\n}\n}\n"
	}
	const what = "the host's traffic with itself, replies, TCP 6443, 2379-2380, 10250, UDP 8472, from pods, 10.32.0.0/20"
	for name, row := range map[string]struct {
		nft      string
		iptables []string // commands
		want     string   // a chain and what it drops, one per line
	}{
		"no rules":                    {"", nil, ""},
		"a policy of accept":          {input("accept", ""), nil, ""},
		"a policy of drop":            {input("drop", ""), nil, "nftables chain inet filter input: " + what},
		"ssh alone":                   {input("drop", "iif lo accept\nct state vmap { established : accept, related : accept, invalid : drop }\ntcp dport 22 accept"), nil, "nftables chain inet filter input: TCP 6443, 2379-2380, 10250, UDP 8472, from pods, 10.32.0.0/20"},
		"all is open":                 {input("drop", open), nil, ""},
		"a port of a range lacks":     {input("drop", strings.Replace(open, "2379-2380", "2379", 1)), nil, "nftables chain inet filter input: TCP 6443, 2379-2380, 10250"},
		"only for the site's network": {input("drop", strings.ReplaceAll(open, "tcp dport", "ip saddr 192.0.2.0/24 tcp dport")), nil, "nftables chain inet filter input: from pods, 10.32.0.0/20"},
		"in a chain of its own":       {"table inet filter {\nchain cluster {\n" + open + "}\n}\n" + input("drop", "jump cluster"), nil, ""},
		"a set of addresses":          {"table inet filter {\nset nodes { type ipv4_addr; elements = { 192.0.2.7, 10.32.0.5 }\n}\n}\n" + input("drop", strings.ReplaceAll(open, "tcp dport", "ip saddr @nodes tcp dport")), nil, ""},
		"a last rule that rejects":    {input("accept", strings.Replace(open, "udp dport 8472 accept\n", "", 1)+"reject"), nil, "nftables chain inet filter input: UDP 8472"},
		"drops of something else":     {input("accept", "ip saddr 203.0.113.0/24 drop\nct state invalid drop\ntcp dport 23 drop\niifname eth9 drop"), nil, ""},
		"IPv6 alone drops":            {strings.Replace(input("drop", ""), "table inet", "table ip6", 1), nil, ""},
		"forwarding":                  {"table inet filter {\nchain forward { type filter hook forward priority 0; policy drop;\n}\n}\n", nil, "nftables chain inet filter forward: from pods, 10.32.0.0/20, to pods, 10.32.0.0/20"},
		"what leaves":                 {"table inet filter {\nchain output { type filter hook output priority 0; policy drop;\ntcp dport 443 accept\n}\n}\n", nil, "nftables chain inet filter output: the host's traffic with itself, replies, TCP 6443, 2379-2380, 10250, UDP 8472, to pods, 10.32.0.0/20"},
		"iptables":                    {"", []string{"-P INPUT DROP", "-P FORWARD DROP", "-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT"}, "iptables chain INPUT: " + what},
		"iptables, opened":            {"", []string{"-P INPUT DROP", "-A INPUT -i lo -j ACCEPT", "-A INPUT -m state --state RELATED,ESTABLISHED -j ACCEPT", "-A INPUT -p tcp -m multiport --dports 6443,2379:2380,10250 -m comment --comment \"a cluster\" -j ACCEPT", "-A INPUT -p udp --dport 8472 -j ACCEPT"}, ""},
		"iptables of Red Hat":         {"", []string{"-A INPUT -m state --state RELATED,ESTABLISHED -j ACCEPT", "-A INPUT -p icmp -j ACCEPT", "-A INPUT -i lo -j ACCEPT", "-A INPUT -p tcp -m state --state NEW -m tcp --dport 22 -j ACCEPT", "-A INPUT -j REJECT --reject-with icmp-host-prohibited", "-A FORWARD -j REJECT --reject-with icmp-host-prohibited"}, "iptables chain INPUT: TCP 6443, 2379-2380, 10250, UDP 8472, from pods, 10.32.0.0/20\niptables chain FORWARD: from pods, 10.32.0.0/20, to pods, 10.32.0.0/20"},
	} {
		t.Run(name, func(t *testing.T) {
			isolation.Network(t)
			isolation.Run(t, row.nft, "nft", "-f", "-")
			for _, args := range row.iptables {
				isolation.Run(t, "", "iptables", splitQuoted(args)...)
			}
			look := func() (lines string, commands []string) {
				t.Helper()
				found, err := Blocking(t.Context(), traffic(), nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, b := range found {
					lines += b.Chain + ": " + strings.Join(b.What, ", ") + "\n"
					commands = append(commands, b.Commands...)
				}
				return strings.TrimSpace(lines), commands
			}
			got, commands := look()
			if got != row.want {
				t.Fatalf("got  %s\nwant %s", got, row.want)
			}
			for _, command := range commands {
				isolation.Run(t, "", "sh", "-c", command)
			}
			if got, _ := look(); got != "" {
				t.Errorf("after %q: %s", commands, got)
			}
		})
	}
}

// TestManagedFirewallsKeepTheirRules has the kernel rules of firewalld and ufw, beside a table of the site's own.
func TestManagedFirewallsKeepTheirRules(t *testing.T) {
	isolation.Network(t)
	isolation.Run(t, "table inet firewalld {\nchain filter_INPUT { type filter hook input priority 10; policy accept;\nreject with icmpx admin-prohibited\n}\n}\n", "nft", "-f", "-")
	for _, args := range []string{"-N ufw-before-input", "-P INPUT DROP", "-A INPUT -j ufw-before-input"} {
		isolation.Run(t, "", "iptables", strings.Fields(args)...)
	}
	names := func(managed ...Firewall) string {
		found, err := Blocking(t.Context(), traffic(), managed)
		if err != nil {
			t.Fatal(err)
		}
		var chains []string
		for _, b := range found {
			chains = append(chains, b.Chain)
		}
		return fmt.Sprint(chains)
	}
	for want, managed := range map[string][]Firewall{
		"[iptables chain INPUT nftables chain inet firewalld filter_INPUT]": nil,
		"[iptables chain INPUT]":                       {Firewalld},
		"[nftables chain inet firewalld filter_INPUT]": {UFW},
		"[]": {UFW, Firewalld},
	} {
		if got := names(managed...); got != want {
			t.Errorf("with %v: got %s, want %s", managed, got, want)
		}
	}
}

func TestIPv6ClusterGetsIPv6Rules(t *testing.T) {
	isolation.Network(t)
	isolation.Run(t, "table ip6 mine {\nchain in6 { type filter hook input priority 0; policy drop;\niifname lo accept\nct state established accept\nicmpv6 type nd-neighbor-solicit accept\n}\n}\n", "nft", "-f", "-")
	six := traffic()
	six.Pods = []netip.Prefix{netip.MustParsePrefix("fd00:c00b:1::/56")}
	found, err := Blocking(t.Context(), six, nil)
	if err != nil || len(found) != 1 || strings.Join(found[0].What, ", ") != "TCP 6443, 2379-2380, 10250, UDP 8472, from pods, fd00:c00b:1::/56" ||
		found[0].Commands[2] != "nft insert rule ip6 mine in6 ip6 saddr fd00:c00b:1::/56 accept" {
		t.Errorf("got %+v, %v", found, err)
	}
}

func FuzzRules(f *testing.F) {
	f.Add(`{"nftables":[{"chain":{"family":"inet","table":"filter","name":"input","type":"filter","hook":"input","policy":"drop"}},{"rule":{"family":"inet","table":"filter","chain":"input","expr":[{"match":{"op":"==","left":{"payload":{"protocol":"tcp","field":"dport"}},"right":{"set":[22,{"range":[1,2]}]}}},{"jump":{"target":"input"}}]}}]}`, "*filter\n:INPUT DROP\n-A INPUT ! -i lo -m comment --comment \"a b\" -j INPUT\n")
	f.Fuzz(func(_ *testing.T, nft, iptables string) {
		rules := ruleset{}
		_ = rules.parseNFT([]byte(nft), func(string, string) bool { return false })
		rules.parseIptables("iptables", parseSaved(iptables))
		_ = rules.blocking(traffic())
	})
}
