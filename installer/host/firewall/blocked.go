package firewall

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// Traffic is the traffic of a cluster that rules of this host must let through.
type Traffic struct {
	Ports   []string       // that other nodes and pods connect to, such as 6443/tcp or 2379:2380/tcp
	Pods    []netip.Prefix // networks of pods
	PodLink string         // the interface of pods, "" if it is not known
}

// Blocked is a chain of rules that drops some of a cluster's traffic.
type Blocked struct {
	Chain    string   // with its tool
	What     []string // it drops
	Commands []string // that let it through until the next boot
	Keep     string   // how to keep that
}

// Blocking finds the chains that drop traffic of a cluster, whoever wrote them: nftables.service, iptables-persistent or a person. The rules of
// managed firewalls are left out: these are opened by their own programs.
func Blocking(ctx context.Context, t Traffic, managed []Firewall) ([]Blocked, error) {
	rules, err := readRules(ctx, managed)
	if err != nil {
		return nil, err
	}
	return rules.blocking(t), nil
}

// readRules reads the rules of nftables and of all kinds of iptables.
func readRules(ctx context.Context, managed []Firewall) (ruleset, error) {
	rules := ruleset{}
	read := map[string]bool{} // the output of a tool: two of them may mean one table
	for _, tool := range iptablesTools() {
		tables, err := savedTables(ctx, tool)
		if err != nil {
			continue // a kernel may lack one of them
		}
		if text := fmt.Sprint(strings.HasPrefix(tool, "ip6"), tables); len(tables) > 0 && !read[text] {
			read[text] = true
			rules.parseIptables(tool, slices.DeleteFunc(tables, func(t savedTable) bool {
				return slices.Contains(managed, UFW) && slices.ContainsFunc(t.chains, func(c string) bool { return strings.HasPrefix(c, "ufw") })
			}))
		}
	}
	nft, err := exec.LookPath("nft")
	if err != nil {
		return rules, nil //nolint:nilerr // a host without the tool has none of its rules
	}
	text, err := exec.CommandContext(ctx, nft, "-j", "list", "ruleset").Output()
	if err != nil {
		return nil, fmt.Errorf("%s -j list ruleset: %w", nft, err)
	}
	_, saves := exec.LookPath("iptables-save")
	return rules, rules.parseNFT(text, func(family, table string) bool {
		return table == string(Firewalld) && slices.Contains(managed, Firewalld) ||
			saves == nil && (family == "ip" || family == "ip6") && table == "filter" && strings.Contains(string(text), `"name": "INPUT"`)
	})
}

// need is traffic of one kind, with the packets that show whether it passes.
type need struct {
	what    string
	packets []packet
	nft     string // the match of a rule of nftables or iptables
	tables  string
}

func (s ruleset) blocking(t Traffic) (found []Blocked) {
	at := map[*chain]int{}
	for _, n := range t.needs() {
		for _, p := range n.packets {
			for _, c := range s.dropping(p) {
				if _, has := at[c]; !has {
					at[c] = len(found)
					found = append(found, Blocked{Chain: c.String(), Keep: c.keep()})
				}
				b := &found[at[c]]
				if command := c.open(n); !slices.Contains(b.Commands, command) {
					b.What, b.Commands = append(b.What, n.what), append(b.Commands, command)
				}
			}
		}
	}
	return found
}

// open returns the command that lets traffic through a chain.
func (c *chain) open(n need) string {
	if c.tool != "nft" {
		return c.tool + " -I " + c.name + " " + n.tables + " -j ACCEPT"
	}
	return fmt.Sprintf("nft insert rule %s %s %s %s accept", c.family, c.table, c.name, n.nft)
}

func (c *chain) keep() string {
	if c.tool != "nft" {
		return "keep them with 'netfilter-persistent save' or 'service iptables save'"
	}
	return "write the same rules into /etc/nftables.conf"
}

// needs lists the traffic in all directions. Replies pass where connections begin, so only those are checked.
func (t Traffic) needs() (all []need) {
	for _, six := range t.families() {
		var tcp, udp []string
		packets := map[string][]packet{}
		for _, port := range t.Ports {
			number, protocol, _ := strings.Cut(port, "/")
			if protocol == "udp" {
				udp = append(udp, number)
			} else {
				tcp = append(tcp, number)
			}
			for end := range strings.SplitSeq(number, ":") {
				n, err := strconv.Atoi(end)
				if err == nil {
					packets[protocol] = append(packets[protocol], packet{protocol: protocol, port: n, ipv6: six})
				}
			}
		}
		const ephemeral = 40000
		for _, hook := range []string{"input", "output"} {
			lo := packet{hook: hook, protocol: "tcp", port: ephemeral, ipv6: six, in: "lo"}
			match, tables := `iifname "lo"`, "-i lo"
			if hook == "output" {
				lo.in, lo.out, match, tables = "", "lo", `oifname "lo"`, "-o lo"
			}
			all = append(all, need{"the host's traffic with itself", []packet{lo}, match, tables},
				need{"replies", []packet{{hook: hook, protocol: "tcp", port: ephemeral, reply: true, ipv6: six}}, "ct state established,related", "-m conntrack --ctstate ESTABLISHED,RELATED"})
			for _, of := range []struct {
				protocol string
				numbers  []string
			}{{"tcp", tcp}, {"udp", udp}} {
				if len(of.numbers) == 0 {
					continue
				}
				listed := strings.ReplaceAll(strings.Join(of.numbers, ", "), ":", "-")
				all = append(all, need{strings.ToUpper(of.protocol) + " " + listed, toward(hook, packets[of.protocol]), of.protocol + " dport { " + listed + " }",
					"-p " + of.protocol + " -m multiport --dports " + strings.Join(of.numbers, ",")})
			}
		}
		for _, pods := range t.Pods {
			if pods.Addr().Is6() == six {
				all = append(all, t.podNeeds(pods, six)...)
			}
		}
	}
	return all
}

// podNeeds lists the traffic of pods with this host, and through it.
func (t Traffic) podNeeds(pods netip.Prefix, six bool) []need {
	one, ip := pods.Addr().Next(), "ip"
	if six {
		ip = "ip6"
	}
	from, to := "from pods, "+pods.String(), "to pods, "+pods.String()
	nftFrom, nftTo := ip+" saddr "+pods.String(), ip+" daddr "+pods.String()
	return []need{
		{from, []packet{{hook: "input", protocol: "tcp", port: 6443, in: t.PodLink, from: one, ipv6: six}}, nftFrom, "-s " + pods.String()},
		{from, []packet{{hook: "forward", protocol: "tcp", port: 443, in: t.PodLink, from: one, ipv6: six}}, nftFrom, "-s " + pods.String()},
		{to, []packet{{hook: "forward", protocol: "tcp", port: 53, out: t.PodLink, to: one, ipv6: six}}, nftTo, "-d " + pods.String()},
		{to, []packet{{hook: "output", protocol: "tcp", port: 8080, out: t.PodLink, to: one, ipv6: six}}, nftTo, "-d " + pods.String()},
	}
}

func toward(hook string, packets []packet) (found []packet) {
	for _, p := range packets {
		p.hook = hook
		found = append(found, p)
	}
	return found
}

// families are the pods': false for IPv4, true for IPv6.
func (t Traffic) families() (found []bool) {
	for _, p := range t.Pods {
		if six := p.Addr().Is6(); !slices.Contains(found, six) {
			found = append(found, six)
		}
	}
	if len(found) == 0 { // not known yet
		found = append(found, false)
	}
	return found
}
