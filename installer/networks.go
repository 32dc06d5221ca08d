package installer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/lifecycle"
)

// network is one of the two networks of a cluster: the Installer's, or else a free one from kURL's ranges (kURL §3.1,
// step 29).
type network struct {
	variable     string // that hooks see
	given, sizes string // variables of the Installer's options for the network and for its size
	size         int    // that is looked for
	smallest     int    // prefix length that Kubernetes works with: every node needs a /24 for its pods
	ranges       []string
}

func networks() []network {
	return []network{
		{"POD_CIDR", "FLANNEL_POD_CIDR", "FLANNEL_POD_CIDR_RANGE", 20, 24, []string{"10.32.0.0/16", "10.0.0.0/8"}},
		{"SERVICE_CIDR", "SERVICE_CIDR", "SERVICE_CIDR_RANGE", 22, 28, []string{"10.96.0.0/16", "10.0.0.0/8"}},
	}
}

const networkStep = "node/network"

// networkInputs are the Installer's options, until the cluster is made: from then on its networks are what they are.
func (i *Install) networkInputs() string {
	if rec, made := i.networksOfCluster(); made {
		return rec.Inputs
	}
	options := map[string]string{}
	for _, n := range networks() {
		options[n.given], options[n.sizes] = i.hooks.variables[n.given], i.hooks.variables[n.sizes]
	}
	return lifecycle.Digest(options)
}

// networksOfCluster is the record of the choice with which the cluster was made, if it was.
func (i *Install) networksOfCluster() (lifecycle.Record, bool) {
	if _, made := i.journal.Finished(lifecycle.Step{ID: initStep, Inputs: initInputs}); !made {
		return lifecycle.Record{}, false
	}
	return i.journal.Last(networkStep)
}

// checkNetworks refuses what the Installer cannot ask for, before anything is changed.
func (i *Install) checkNetworks() error {
	if i.Joins() {
		return nil // checkJoin looks at those of the cluster
	}
	rec, made := i.networksOfCluster()
	var chosen []netip.Prefix
	for _, n := range networks() {
		given := i.hooks.variables[n.given]
		if given == "" {
			continue
		}
		if has := rec.State[n.variable]; made && has != given {
			return fmt.Errorf("the cluster's %s is %s, the Installer asks for %s; a cluster keeps its networks", n.variable, has, given)
		}
		if made {
			continue
		}
		p, err := n.parse(given)
		if err == nil {
			err = clash(p, append(chosen, i.facts.Routes...))
		}
		if err != nil {
			return fmt.Errorf("the Installer's %s is %q: %w", n.given, given, err)
		}
		chosen = append(chosen, p)
	}
	return nil
}

func (n network) parse(given string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(given)
	switch {
	case err != nil:
		return netip.Prefix{}, errors.New("not a network such as 10.32.0.0/20")
	case !p.Addr().Is4() || !p.Addr().IsPrivate():
		return netip.Prefix{}, errors.New("not a private IPv4 network such as 10.32.0.0/20")
	case p != p.Masked():
		return netip.Prefix{}, fmt.Errorf("has bits behind its length; write %s", p.Masked())
	case p.Bits() > n.smallest:
		return netip.Prefix{}, fmt.Errorf("too small; give it a length of at most /%d", n.smallest)
	}
	return p, nil
}

func clash(p netip.Prefix, used []netip.Prefix) error {
	for _, u := range used {
		if p.Overlaps(u) {
			return fmt.Errorf("overlaps %s, which is in use on this host", u)
		}
	}
	return nil
}

// chooseNetworks settles the pod and service networks. The choice is made once, since the cluster's own routes would look
// taken later.
func (i *Install) chooseNetworks(ctx context.Context) (lifecycle.State, error) {
	state := lifecycle.State{}
	used := i.facts.Routes
	for _, n := range networks() {
		chosen, err := i.chooseNetwork(n, used)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n.variable, err)
		}
		used = append(used, chosen)
		state[n.variable] = chosen.String()
	}
	return state, i.hooks.restore(ctx, state)
}

func (i *Install) chooseNetwork(n network, used []netip.Prefix) (netip.Prefix, error) {
	if given := i.hooks.variables[n.given]; given != "" {
		return n.parse(given)
	}
	size := n.size
	if text := strings.TrimPrefix(i.hooks.variables[n.sizes], "/"); text != "" {
		var err error
		if size, err = strconv.Atoi(text); err != nil {
			return netip.Prefix{}, fmt.Errorf("the Installer's %s is not a network size such as /20: %w", n.sizes, err)
		}
	}
	var ranges []netip.Prefix
	for _, r := range n.ranges {
		ranges = append(ranges, netip.MustParsePrefix(r))
	}
	return host.FreeSubnet(size, ranges, used)
}
