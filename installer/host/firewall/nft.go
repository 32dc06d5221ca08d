package firewall

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// The JSON of libnftables-json(5), as far as it decides what happens to packets.
type (
	nftObject struct {
		Chain *nftChain `json:"chain"`
		Rule  *nftRule  `json:"rule"`
	}
	nftChain struct{ Family, Table, Name, Type, Hook, Policy string }
	nftRule  struct {
		Family, Table, Chain string
		Expr                 []map[string]json.RawMessage
	}
	nftMatch struct {
		Op    string
		Left  map[string]json.RawMessage
		Right json.RawMessage
	}
	nftMap struct {
		Key  map[string]json.RawMessage
		Data struct {
			Set [][]json.RawMessage
		}
	}
)

// parseNFT adds the chains of nftables to those of the host. skip names tables that another tool has read.
func (s ruleset) parseNFT(text []byte, skip func(family, table string) bool) error {
	var all struct{ Nftables []nftObject }
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("nft -j list ruleset: %w", err)
	}
	for _, o := range all.Nftables {
		if c := o.Chain; c != nil && !skip(c.Family, c.Table) && (c.Hook == "" || c.Type == "filter") {
			made := s.chain("nft", c.Family, c.Table, c.Name)
			made.hook = c.Hook
			if c.Policy != "" {
				made.policy = c.Policy
			}
		}
	}
	for _, o := range all.Nftables {
		if r := o.Rule; r != nil && !skip(r.Family, r.Table) {
			c := s.chain("nft", r.Family, r.Table, r.Chain)
			c.rules = append(c.rules, r.rules()...)
		}
	}
	return nil
}

// rules splits a rule: each entry of a verdict map is one.
func (r nftRule) rules() (found []rule) {
	var one rule
	for _, e := range r.Expr {
		for name, value := range e {
			switch name {
			case "match":
				var m nftMatch
				if json.Unmarshal(value, &m) != nil {
					one.conditions = append(one.conditions, unknown)
					continue
				}
				one.conditions = append(one.conditions, nftCondition(m.Left, m.Right, m.Op == "!="))
			case "vmap":
				found = append(found, verdictMap(one.conditions, value)...)
			case "limit", "xt", "connlimit", "ct count", "quota":
				one.conditions = append(one.conditions, unknown)
			}
			one.take(name, value)
		}
	}
	if one.verdict == "" {
		return found
	}
	return append(found, one)
}

// take notes a verdict.
func (r *rule) take(name string, value json.RawMessage) {
	switch name {
	case accept, drop, back:
		r.verdict = name
	case "reject":
		r.verdict = drop
	case jump, toChain:
		var to struct{ Target string }
		if json.Unmarshal(value, &to) == nil {
			r.verdict, r.target = name, to.Target
		}
	}
}

func verdictMap(before []condition, value json.RawMessage) (found []rule) {
	var m nftMap
	if json.Unmarshal(value, &m) != nil {
		return nil
	}
	for _, entry := range m.Data.Set {
		if len(entry) != 2 {
			continue
		}
		one := rule{conditions: append(append([]condition{}, before...), nftCondition(m.Key, entry[0], false))}
		var verdict map[string]json.RawMessage
		if json.Unmarshal(entry[1], &verdict) == nil {
			for name, to := range verdict {
				one.take(name, to)
			}
		}
		found = append(found, one)
	}
	return found
}

// nftCondition reads a match. An unknown one may match any packet.
func nftCondition(left map[string]json.RawMessage, right json.RawMessage, invert bool) condition {
	var of struct{ Protocol, Field, Key string }
	for name, value := range left {
		_ = json.Unmarshal(value, &of) // missing parts stay empty
		values, known := nftValues(right)
		switch {
		case !known:
			return unknown
		case name == "payload" && of.Field == "dport":
			return matchPorts(strings.TrimPrefix(of.Protocol, "th"), ports(values), invert)
		case name == "payload" && (of.Field == "saddr" || of.Field == "daddr"):
			return matchAddress(endOf(of.Field), networks(values), invert)
		case name == "payload" && (of.Field == "protocol" || of.Field == "nexthdr"), name == "meta" && of.Key == "l4proto":
			return matchProtocol(values, invert)
		case name == "payload" && of.Protocol != "ip" && of.Protocol != "ip6" && of.Protocol != "tcp" && of.Protocol != "udp" && of.Protocol != "th" && of.Protocol != "ether":
			return matchProtocol([]string{of.Protocol}, invert) // such as the type of an ICMP packet
		case name == "meta" && (of.Key == "iifname" || of.Key == "iif"):
			return matchInterface(func(p packet) string { return p.in }, values, invert)
		case name == "meta" && (of.Key == "oifname" || of.Key == "oif"):
			return matchInterface(func(p packet) string { return p.out }, values, invert)
		case name == "meta" && of.Key == "nfproto":
			six := len(values) == 1 && values[0] == "ipv6"
			return func(p packet) answer { return answerOf(p.ipv6 == six).inverted(invert) }
		case name == "ct" && of.Key == "state":
			return matchState(values, invert)
		}
	}
	return unknown
}

// endOf returns the source or the destination of packets.
func endOf(field string) func(packet) netip.Addr {
	if strings.HasPrefix(field, "s") {
		return func(p packet) netip.Addr { return p.from }
	}
	return func(p packet) netip.Addr { return p.to }
}

// nftValues returns a match's values as text: 22, 2379-2380, 10.0.0.0/8, eth0. known is false for a named set.
func nftValues(right json.RawMessage) (values []string, known bool) {
	var value any
	if json.Unmarshal(right, &value) != nil {
		return nil, false
	}
	switch v := value.(type) {
	case string:
		return []string{v}, !strings.HasPrefix(v, "@")
	case float64:
		return []string{strconv.Itoa(int(v))}, true
	case []any:
		return nftList(v)
	case map[string]any:
		if list, ok := v["set"].([]any); ok {
			return nftList(list)
		}
		if ends, ok := v["range"].([]any); ok && len(ends) == 2 {
			return []string{fmt.Sprintf("%v-%v", ends[0], ends[1])}, true
		}
		if p, ok := v["prefix"].(map[string]any); ok {
			return []string{fmt.Sprintf("%v/%v", p["addr"], p["len"])}, true
		}
	}
	return nil, false
}

func nftList(list []any) (values []string, known bool) {
	for _, one := range list {
		text, err := json.Marshal(one)
		if err != nil {
			return nil, false
		}
		more, ok := nftValues(text)
		if !ok {
			return nil, false
		}
		values = append(values, more...)
	}
	return values, true
}
