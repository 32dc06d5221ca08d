package readdress

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// facts are the inputs of the checks of a new address.
type facts struct {
	own      map[netip.Addr]string // addresses of this host, with their interfaces
	nodes    map[netip.Addr]string // addresses of the other nodes, with their names
	networks []netip.Prefix        // of pods and Services
	virtual  func(link string) bool
	second   netip.Addr // of this node, of the other family; invalid if there is none
	before   bool       // the host gets the address later
}

// Parse reads an address as a person writes it.
func Parse(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return a, fmt.Errorf("%q is not an IP address: name the new address of this host, such as 10.0.0.7", text)
	}
	return a.Unmap(), nil
}

// check refuses an unusable address, and returns the interface that has it.
func (f facts) check(from, to netip.Addr) (link string, err error) {
	switch {
	case to.IsLoopback():
		return "", fmt.Errorf("%s is a loopback address, which other hosts cannot reach", to)
	case to.IsUnspecified(), to.IsMulticast(), to.IsLinkLocalUnicast(), to.Zone() != "", to.Is4() && to == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "", fmt.Errorf("%s is not an address that a node can have: other hosts cannot reach it through a network", to)
	case to.Is4() != from.Is4() && f.second.IsValid():
		return "", fmt.Errorf("%s is of the family of %s, the second address of this node; this command changes only the first one, %s", to, f.second, from)
	case to.Is4() != from.Is4():
		return "", fmt.Errorf("%s and %s, the address of this node now, are of different families; the networks of the cluster have that of %s", to, from, from)
	}
	if name, taken := f.nodes[to]; taken {
		return "", fmt.Errorf("%s is the address of node %s", to, name)
	}
	for _, n := range f.networks {
		if n.Contains(to) {
			return "", fmt.Errorf("%s is in %s, a network of the cluster's pods or Services", to, n)
		}
	}
	link, here := f.own[to]
	switch {
	case f.before && here:
		return "", fmt.Errorf("%s already has %s: leave out --before", link, to)
	case f.before:
		return "", nil
	case !here:
		return "", fmt.Errorf("no interface of this host has %s (it has %s); give it to an interface first: the old address may stay beside it", to, f.addresses())
	case f.virtual(link):
		return "", fmt.Errorf("%s is the address of %s, an interface that containers or pods use", to, link)
	}
	return link, nil
}

// checkSecond refuses a host that lost the second address of its node: its kubelet would report no new address.
func (f facts) checkSecond() error {
	if _, here := f.own[f.second]; here || !f.second.IsValid() || f.before {
		return nil
	}
	return fmt.Errorf("no interface of this host has %s, the second address of this node, and its kubelet reports no other address until one has; "+
		"give it back to an interface first, and run the command again", f.second)
}

// addresses lists the addresses of this host that a node could have.
func (f facts) addresses() string {
	var names []string
	for _, a := range slices.SortedFunc(maps.Keys(f.own), netip.Addr.Compare) {
		if !a.IsLoopback() && !a.IsLinkLocalUnicast() && !f.virtual(f.own[a]) {
			names = append(names, a.String())
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// networksOf parses networks as configurations name them: two of them have a comma between.
func networksOf(texts ...string) (found []netip.Prefix, err error) {
	for _, text := range texts {
		for one := range strings.SplitSeq(text, ",") {
			if one = strings.TrimSpace(one); one == "" {
				continue
			}
			n, parseErr := netip.ParsePrefix(one)
			if parseErr != nil {
				err = errors.Join(err, fmt.Errorf("the cluster's network %q: %w", one, parseErr))
				continue
			}
			found = append(found, n)
		}
	}
	return found, err
}
