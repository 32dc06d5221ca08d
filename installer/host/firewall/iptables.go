package firewall

import (
	"net/netip"
	"strconv"
	"strings"
)

// parseIptables adds the filter table of a tool to the chains of the host.
func (s ruleset) parseIptables(tool string, tables []savedTable) {
	family := "ip"
	if strings.HasPrefix(tool, "ip6") {
		family = "ip6"
	}
	for _, t := range tables {
		if t.name != "filter" {
			continue
		}
		for name, policy := range t.policies {
			c := s.chain(tool, family, t.name, name)
			c.hook, c.policy = strings.ToLower(name), strings.ToLower(policy)
		}
		for _, text := range t.rules {
			words := splitQuoted(text)
			if len(words) < 2 {
				continue
			}
			c := s.chain(tool, family, t.name, words[1])
			c.rules = append(c.rules, iptablesRule(words[2:]))
		}
	}
}

// splitQuoted splits a line of iptables-save into words. A comment with spaces is in quotes.
func splitQuoted(line string) (words []string) {
	var word strings.Builder
	quoted, begun := false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && i+1 < len(line):
			i++
			word.WriteByte(line[i])
		case c == '"':
			quoted, begun = !quoted, true
		case c == ' ' && !quoted:
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	if begun {
		words = append(words, word.String())
	}
	return words
}

// iptablesRule reads the words of a rule behind its chain. A match that it does not know may fit.
func iptablesRule(words []string) (r rule) {
	invert := false
	for i := 0; i < len(words); i++ {
		value := ""
		if i+1 < len(words) {
			value = words[i+1]
		}
		list := strings.Split(value, ",")
		var fits condition
		switch words[i] {
		case "!":
			invert = true
			continue
		case "-j":
			r.verdict, r.target = iptablesVerdict(value)
			return r // what follows are its options
		case "-g":
			r.verdict, r.target = toChain, value
			return r
		case "-m", "--comment":
			if value != "comment" && value != "tcp" && value != "udp" && value != "multiport" && value != "conntrack" && value != "state" && value != "icmp" && words[i] == "-m" {
				fits = unknown
			}
		case "-p":
			fits = matchProtocol(list, invert)
		case "-i":
			fits = matchInterface(func(p packet) string { return p.in }, list, invert)
		case "-o":
			fits = matchInterface(func(p packet) string { return p.out }, list, invert)
		case "-s":
			fits = matchAddress(endOf("saddr"), networks(list), invert)
		case "-d":
			fits = matchAddress(endOf("daddr"), networks(list), invert)
		case "--dport", "--dports":
			fits = matchPorts("", ports(list), invert)
		case "--ctstate", "--state":
			fits = matchState(list, invert)
		default:
			fits = unknown
			if !strings.HasPrefix(words[i], "-") {
				continue // a value of an unknown option
			}
		}
		if fits != nil {
			r.conditions = append(r.conditions, fits)
		}
		if words[i] != "!" {
			invert = false
		}
		i++
	}
	return r
}

func iptablesVerdict(target string) (verdict, chain string) {
	switch target {
	case "ACCEPT":
		return accept, ""
	case "DROP", "REJECT":
		return drop, ""
	case "RETURN":
		return back, ""
	}
	return jump, target // one that is not a chain, such as LOG, leads nowhere
}

// ports reads ports such as 22, 2379:2380 and 2379-2380.
func ports(texts []string) (found []portRange) {
	for _, text := range texts {
		first, last, isRange := strings.Cut(strings.ReplaceAll(text, ":", "-"), "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, lastErr := strconv.Atoi(last)
		if err == nil && lastErr == nil {
			found = append(found, portRange{from, to})
		}
	}
	return found
}

// networks reads addresses, networks, and ranges of addresses, of which it uses the first.
func networks(texts []string) (found []netip.Prefix) {
	for _, text := range texts {
		first, _, _ := strings.Cut(text, "-")
		if p, err := netip.ParsePrefix(first); err == nil {
			found = append(found, p)
		} else if a, err := netip.ParseAddr(first); err == nil {
			found = append(found, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return found
}
