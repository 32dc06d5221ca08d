package install

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/sealift/sealift/installer/hooks/hook"
	"github.com/sealift/sealift/installer/host/network"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/preflight"
)

// clusterNetwork is one of the two networks of a cluster: the Installer's, or else a free one from kURL's ranges (kURL §3.1,
// step 29).
type clusterNetwork struct {
	variable string // that hooks see
	given    subnet // by the Installer
	option   string // of the Installer for the network
	six      bool   // it is IPv6
	size     int    // prefix length of the requested network
	// The prefix lengths that Kubernetes works with. Every node needs a network for its pods: a /24, or a /64 with IPv6. There are at
	// most 65,536 of these. The API server keeps note of each address for services.
	largest, smallest int
	ranges            []string
}

func (s settings) networks() []clusterNetwork {
	const podOption, serviceOption = "flannel.podCIDR", "kubernetes.serviceCIDR"
	// kURL's first, then those that a site that routes all of it leaves free
	wide := []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", carrierShared.String()}
	pods4, pods6 := s.pods, s.pods
	services4, services6 := s.services, s.services
	if s.dual() {
		pods4, pods6 = s.pods.split()
		services4, services6 = s.services.split()
	}
	four := []clusterNetwork{
		{node.PodNetwork, pods4, podOption, false, 20, 8, 24, append([]string{"10.32.0.0/16"}, wide...)},
		{node.ServiceNetwork, services4, serviceOption, false, 22, 12, 28, append([]string{"10.96.0.0/16"}, wide...)},
	}
	six := []clusterNetwork{
		{node.PodNetwork, pods6, podOption, true, 56, 48, 64, []string{"fd00:c00b:1::/48", "fd00::/8"}},
		{node.ServiceNetwork, services6, serviceOption, true, 112, 108, 124, []string{"fd00:c00b:2::/48", "fd00::/8"}},
	}
	switch {
	case s.ipv6:
		return six
	case s.dual():
		six[0].variable, six[1].variable = node.PodNetwork6, node.ServiceNetwork6
		return append(four, six...)
	}
	return four
}

// example is an example of a network of the kind.
func (n clusterNetwork) example() string {
	if n.six {
		return fmt.Sprintf("fd00:c00b:1::/%d", n.size)
	}
	return fmt.Sprintf("10.32.0.0/%d", n.size)
}

// carrierShared is not private by name, but belongs to nobody either (RFC 6598).
var carrierShared = netip.MustParsePrefix("100.64.0.0/10")

// networkInputs are the Installer's options until the cluster exists. From then on, its networks no longer change.
func (j *job) networkInputs() string {
	if rec, made := j.networksOfCluster(); made {
		return rec.Inputs
	}
	inputs := []any{j.settings.pods.network, j.settings.pods.size, j.settings.services.network, j.settings.services.size}
	if j.settings.ipv6 {
		inputs = append(inputs, j.settings.ipv6)
	}
	if j.settings.dual() {
		inputs = append(inputs, "dual-stack")
	}
	return lifecycle.Digest(inputs...)
}

// networksOfCluster is the record of the choice with which the cluster was made, if it was.
func (h *hostFacts) networksOfCluster() (lifecycle.Record, bool) {
	if _, made := h.past.Finished(lifecycle.Step{ID: node.InitStep, Inputs: initInputs}); !made {
		return lifecycle.Record{}, false
	}
	return h.past.Last(node.NetworkStep)
}

// checkNetworks refuses impossible networks of the Installer, and a host without a free network, before anything is changed.
func (j *job) checkNetworks() error {
	if _, makes := kubernetes(j.addOns); !makes || j.Joins() {
		return nil // checkJoin checks those of the cluster
	}
	rec, made := j.networksOfCluster()
	if !made {
		_, err := j.settleNetworks()
		return err
	}
	for _, n := range j.settings.networks() {
		if given, has := n.given.network, rec.State[n.variable]; given != "" && has != given {
			return unmetf("a cluster keeps its networks, so leave out "+n.option, "the cluster's %s is %s, the Installer asks for %s", n.variable, has, given)
		}
	}
	return nil
}

// emptied returns the networks that a hook has emptied, with their former values. kURL chooses its networks after the pre-init
// hooks, so some hooks begin by setting POD_CIDR to an option that the Installer does not have (kURL §3.1, step 29).
func emptied(before, after hook.Variables) hook.Variables {
	chosen := hook.Variables{}
	for _, name := range node.NetworkVariables() {
		if before[name] != "" && after[name] == "" {
			chosen[name] = before[name]
		}
	}
	return chosen
}

func (n clusterNetwork) parse(given string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(given)
	switch {
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("not a network such as %s", n.example())
	case n.six && !(p.Addr().Is6() && p.Addr().IsGlobalUnicast()):
		return netip.Prefix{}, fmt.Errorf("not an IPv6 network such as %s", n.example())
	case !n.six && (!p.Addr().Is4() || !p.Addr().IsPrivate() && !carrierShared.Contains(p.Addr())):
		return netip.Prefix{}, fmt.Errorf("not a private IPv4 network such as %s", n.example())
	case p != p.Masked():
		return netip.Prefix{}, fmt.Errorf("has bits behind its length; write %s", p.Masked())
	case p.Bits() < n.largest:
		return netip.Prefix{}, fmt.Errorf("too large; give it a length of at least /%d", n.largest)
	case p.Bits() > n.smallest:
		return netip.Prefix{}, fmt.Errorf("too small; give it a length of at most /%d", n.smallest)
	}
	return p, nil
}

// clash refuses a named network if this host could not work with it: one of the networks that its interfaces are in, and one that has an
// address or a route of this host inside, which would win over the cluster's. A route wider than the network means that the site routes
// the whole range. Whoever names a network in it has chosen it.
func (h *hostFacts) clash(p netip.Prefix, used []netip.Prefix) error {
	for _, u := range used {
		if p.Overlaps(u) && (u.Bits() > p.Bits() || !h.routed(u)) {
			return fmt.Errorf("overlaps %s, which is in use on this host", u)
		}
	}
	return nil
}

// routed reports whether a network is one that this host has only a route to.
func (h *hostFacts) routed(used netip.Prefix) bool {
	return slices.Contains(h.facts.Used, used) && !slices.ContainsFunc(h.facts.Attached, func(a netip.Prefix) bool {
		return a.Bits() <= used.Bits() && a.Contains(used.Addr())
	})
}

// networksCheck warns of networks of the cluster chosen inside a range that the site routes as a whole.
func (j *job) networksCheck(_ context.Context, r *preflight.Reporter) {
	used, err := j.used()
	if err != nil {
		r.Warnf("see why", "%v", err)
		return
	}
	chosen := j.currentNetworks()
	if chosen[node.PodNetwork] == "" {
		if chosen, err = j.settleNetworks(); err != nil {
			return // the requirement of this name has the reason
		}
	}
	var names []string
	for _, name := range node.NetworkVariables() {
		p, err := netip.ParsePrefix(chosen[name])
		if err != nil {
			continue
		}
		names = append(names, p.String())
		if at := slices.IndexFunc(used, p.Overlaps); at >= 0 {
			r.Warnf("keep it if nothing that this host talks to has an address there", "%s %s lies in %s, which this host has a route to; addresses in it outside of the cluster cannot be reached", name, p, used[at])
		}
	}
	r.Passf("%s", strings.Join(names, ", "))
}

// chooseNetworks settles the pod and service networks. The choice is made once, since the cluster's own routes would look used
// later.
func (i *Install) chooseNetworks(ctx context.Context) (lifecycle.State, error) {
	state, err := i.settleNetworks()
	if err != nil {
		return nil, err
	}
	return state, i.hooks.restore(ctx, state)
}

// settleNetworks returns the networks of the Installer, and free ones for the rest.
func (j *job) settleNetworks() (lifecycle.State, error) {
	used, err := j.used()
	if err != nil {
		return nil, err
	}
	state := lifecycle.State{}
	for _, n := range j.settings.networks() {
		given := n.given.network
		if given == "" {
			continue
		}
		p, err := n.parse(given)
		if err == nil {
			err = j.clash(p, used)
		}
		if err != nil {
			return nil, unmetf("name another network as "+n.option+", or leave it out", "the Installer's %s is %q: %v", n.option, given, err)
		}
		used, state[n.variable] = append(used, p), p.String()
	}
	for _, n := range j.settings.networks() {
		if state[n.variable] != "" {
			continue
		}
		free, err := n.free(used)
		if err != nil {
			return nil, unmetf("name one as "+n.option+" in the Installer", "%s: %v", n.variable, err)
		}
		used, state[n.variable] = append(used, free), free.String()
	}
	return state, nil
}

// free looks for a network of the size that the Installer gives, or of the usual one.
func (n clusterNetwork) free(used []netip.Prefix) (netip.Prefix, error) {
	size := n.size
	if given := n.given.size; given != "" {
		var err error
		if size, err = strconv.Atoi(strings.TrimPrefix(given, "/")); err != nil || size < n.largest || size > n.smallest {
			return netip.Prefix{}, fmt.Errorf("the Installer's size for %s is %q, not a size from /%d to /%d", n.variable, given, n.largest, n.smallest)
		}
	}
	var ranges []netip.Prefix
	for _, r := range n.ranges {
		ranges = append(ranges, netip.MustParsePrefix(r))
	}
	return network.FreeSubnet(size, ranges, used)
}

// used returns the networks that the host uses. It leaves out those that an earlier run of the same install added:
// kubernetes_pre_init makes a route to the services before there is a cluster.
func (j *job) used() ([]netip.Prefix, error) {
	own, err := node.Networks(j.options.Root, j.past.Records())
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(j.facts.Used), func(r netip.Prefix) bool {
		return slices.ContainsFunc(own, func(text string) bool {
			p, err := netip.ParsePrefix(text)
			return err == nil && p.Bits() <= r.Bits() && p.Contains(r.Addr())
		})
	}), nil
}
