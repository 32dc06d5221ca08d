package approver

import (
	"net/netip"
	"slices"
	"strings"
)

// claims are names and addresses with their owners. It compares names without regard to capitals or a dot at the end, and addresses
// as addresses.
type claims struct {
	names         map[string]string
	addresses     map[netip.Addr]string
	controlPlanes map[string]bool
	domains       map[string]bool
}

func newClaims() claims {
	return claims{names: map[string]string{}, addresses: map[netip.Addr]string{}, controlPlanes: map[string]bool{}, domains: map[string]bool{"cluster.local": true}}
}

// normal writes a name as DNS compares it.
func normal(name string) string {
	return strings.ToLower(strings.TrimRight(strings.TrimSpace(name), "."))
}

// parseAddress reads an address: an IPv4 address may be written as IPv6, and a zone does not count.
func parseAddress(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(normal(text))
	return a.WithZone("").Unmap(), err == nil
}

// add notes names, addresses, URLs, and hosts with ports. Empty ones do not count.
func (c claims) add(what string, texts ...string) {
	for _, text := range texts {
		host := normal(hostOf(text))
		if address, ok := parseAddress(host); ok {
			c.addresses[address] = what
		} else if host != "" {
			c.names[host] = what
		}
	}
}

// controlPlane notes the name of a control plane's node.
func (c claims) controlPlane(node string) {
	if node != "" {
		c.controlPlanes[normal(node)] = true
	}
}

// domain notes the domain in which the cluster has its Services.
func (c claims) domain(name string) {
	if name != "" {
		c.domains[normal(name)] = true
	}
}

// name returns the owner of a name or an address; taken is false if it is free.
func (c claims) name(text string) (what string, taken bool) {
	name := normal(text)
	if address, ok := parseAddress(name); ok {
		if address.IsLoopback() || address.IsUnspecified() || address.IsLinkLocalUnicast() {
			return "an address of every host", true
		}
		what, taken = c.addresses[address]
		return what, taken
	}
	if what, taken := c.names[name]; taken {
		return what, true
	}
	if _, parent, ok := strings.Cut(name, "."); ok {
		if what, taken := c.names["*."+parent]; taken {
			return what, true
		}
	}
	if isLocal(name) {
		return "a name of every host", true
	}
	if isServiceName(name) {
		return "the name of a Service", true
	}
	for domain := range c.domains {
		if name == domain || strings.HasSuffix(name, "."+domain) {
			return "a name in the domain of Services", true
		}
	}
	for controlPlane := range c.controlPlanes {
		// a host's short name and its name with a domain are one
		if name == controlPlane || strings.HasPrefix(name, controlPlane+".") || strings.HasPrefix(controlPlane, name+".") {
			return "the name of control plane " + controlPlane, true
		}
	}
	return "", false
}

// isServiceName reports whether a name is one of the API's Service, or of a Service as pods name it.
func isServiceName(name string) bool {
	labels := strings.Split(name, ".")
	return name == "kubernetes" || name == "kubernetes.default" || len(labels) > 2 && labels[2] == "svc"
}

// isLocal reports whether a name means the host that looks it up (RFC 6761, and what distributions have in /etc/hosts).
func isLocal(name string) bool {
	first, _, _ := strings.Cut(name, ".")
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || slices.Contains([]string{"localhost", "ip6-localhost", "ip6-loopback", "localhost4", "localhost6"}, first)
}
