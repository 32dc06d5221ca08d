package firewall

import (
	"net/netip"
	"slices"
	"strings"
)

// packet is one that a firewall may drop.
type packet struct {
	hook     string     // input, forward or output
	protocol string     // tcp or udp
	port     int        // of its destination
	reply    bool       // it belongs to a connection that exists
	in, out  string     // interfaces; "" for any but the loopback interface
	from, to netip.Addr // not valid for other hosts
	ipv6     bool
}

// answer is the result of a rule's condition for a packet.
type answer int

const (
	no answer = iota
	perhaps
	yes
)

func answerOf(b bool) answer {
	if b {
		return yes
	}
	return no
}

func (a answer) inverted(invert bool) answer {
	if invert {
		return yes - a
	}
	return a
}

// condition is one match of a rule.
type condition func(p packet) answer

// The verdicts of rules. A jump or goto has a target.
const (
	accept  = "accept"
	drop    = "drop"
	jump    = "jump"
	toChain = "goto"
	back    = "return"
)

type rule struct {
	conditions []condition
	verdict    string // "" for a rule that only counts, logs or changes packets
	target     string
}

// chain is a list of rules. One without a hook is called by others.
type chain struct {
	tool   string // nft, iptables, …
	family string // of nftables: ip, ip6 or inet
	table  string
	name   string
	hook   string
	policy string
	rules  []rule
}

// ruleset are the chains of the host, by their tables.
type ruleset map[string]map[string]*chain

func (s ruleset) chain(tool, family, table, name string) *chain {
	key := tool + " " + family + " " + table
	if s[key] == nil {
		s[key] = map[string]*chain{}
	}
	if s[key][name] == nil {
		s[key][name] = &chain{tool: tool, family: family, table: table, name: name, policy: accept}
	}
	return s[key][name]
}

// dropping returns the chains that drop a packet, in order of their names. A rule that accepts counts if it may match the packet, and one
// that drops only if it surely does: unknown conditions block nobody.
func (s ruleset) dropping(p packet) (found []*chain) {
	for _, table := range s {
		for _, c := range table {
			if c.hook != p.hook || c.family == "ip" && p.ipv6 || c.family == "ip6" && !p.ipv6 {
				continue
			}
			verdict := walk(table, c, p, yes, len(table))
			if verdict == drop || verdict == "" && c.policy == drop && !c.ownForwarding() {
				found = append(found, c)
			}
		}
	}
	slices.SortFunc(found, func(a, b *chain) int { return strings.Compare(a.String(), b.String()) })
	return found
}

// ownForwarding reports whether pod networks append their own rules to the chain, so that its policy is not reached.
func (c *chain) ownForwarding() bool { return c.tool != "nft" && c.hook == "forward" }

// String names a chain as its tool does.
func (c *chain) String() string {
	if c.tool != "nft" {
		return c.tool + " chain " + c.name
	}
	return "nftables chain " + c.family + " " + c.table + " " + c.name
}

// walk returns the verdict of a chain: accept, drop, or "" when its end was reached. certain is yes if the packet surely gets there.
// depth bounds jumps.
func walk(table map[string]*chain, c *chain, p packet, certain answer, depth int) string {
	for _, r := range c.rules {
		fits := certain
		for _, fit := range r.conditions {
			fits = min(fits, fit(p))
		}
		switch {
		case fits == no || r.verdict == "":
		case r.verdict == accept:
			return accept
		case r.verdict == drop && fits == yes:
			return drop
		case r.verdict == back && fits == yes:
			return ""
		case (r.verdict == jump || r.verdict == toChain) && depth > 0 && table[r.target] != nil:
			verdict := walk(table, table[r.target], p, fits, depth-1)
			if verdict != "" || r.verdict == toChain && fits == yes {
				return verdict
			}
		}
	}
	return ""
}

// matchPorts fits packets of a protocol to ports.
func matchPorts(protocol string, ports []portRange, invert bool) condition {
	return func(p packet) answer {
		if protocol != "" && p.protocol != protocol {
			return no
		}
		return answerOf(slices.ContainsFunc(ports, func(r portRange) bool { return r.first <= p.port && p.port <= r.last })).inverted(invert)
	}
}

type portRange struct{ first, last int }

// matchInterface fits an interface by its name or the beginning of it, which ends in * or +.
func matchInterface(of func(packet) string, names []string, invert bool) condition {
	return func(p packet) answer {
		name := of(p)
		if name == "" { // any but the loopback interface
			if slices.Equal(names, []string{"lo"}) {
				return no.inverted(invert)
			}
			return perhaps
		}
		return answerOf(slices.ContainsFunc(names, func(n string) bool {
			prefix := strings.TrimRight(n, "*+")
			return n == name || prefix != n && strings.HasPrefix(name, prefix)
		})).inverted(invert)
	}
}

// matchAddress matches an address in networks.
func matchAddress(of func(packet) netip.Addr, networks []netip.Prefix, invert bool) condition {
	return func(p packet) answer {
		a := of(p)
		if !a.IsValid() { // of another host
			if !slices.ContainsFunc(networks, func(n netip.Prefix) bool { return !n.Addr().IsLoopback() }) {
				return no.inverted(invert)
			}
			return perhaps
		}
		return answerOf(slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(a) })).inverted(invert)
	}
}

// matchState matches packets that begin a connection, or that belong to one.
func matchState(states []string, invert bool) condition {
	has := func(state string) bool {
		return slices.ContainsFunc(states, func(s string) bool { return strings.EqualFold(s, state) })
	}
	return func(p packet) answer {
		return answerOf(p.reply && has("established") || !p.reply && has("new")).inverted(invert)
	}
}

func matchProtocol(names []string, invert bool) condition {
	return func(p packet) answer { return answerOf(slices.Contains(names, p.protocol)).inverted(invert) }
}

func unknown(packet) answer { return perhaps }
