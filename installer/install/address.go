package install

import (
	"cmp"
	"net/netip"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/network"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/regularfile"
)

// asksForIPv6 and asksForBoth report whether the Installer requests IPv6, or both families.
func (c *contents) asksForIPv6() bool { return isTrue(c.spec.Section("kurl").Options, "ipv6") }
func (c *contents) asksForBoth() bool { return isTrue(c.spec.Section("kurl").Options, "dualStack") }

// dualStack reports whether the cluster has IPv4 and IPv6 or, before it exists, whether the Installer requests both.
func (j *job) dualStack() bool {
	networks := j.currentNetworks()
	if networks[node.PodNetwork] == "" {
		return j.asksForBoth()
	}
	return networks[node.PodNetwork6] != ""
}

// currentNetworks are those of the cluster, or of the one that a seed continues, and empty before there is one.
func (j *job) currentNetworks() lifecycle.State {
	if j.Joins() {
		return j.options.Join.Cluster.Networks().State()
	}
	if rec, made := j.networksOfCluster(); made {
		return rec.State
	}
	if seed := j.options.Seed; seed != nil {
		return seed.Networks.State()
	}
	return nil
}

// ipFamily reports whether the cluster that there is has IPv6 first. known is false before there is one.
func (j *job) ipFamily() (v6, known bool) {
	p, err := netip.ParsePrefix(j.currentNetworks()[node.PodNetwork])
	return err == nil && p.Addr().Is6(), err == nil
}

// chooseAddress chooses the addresses of this host by which other nodes reach it, unless the Installer names the first one. It has the
// family of the cluster that there is, or the one that the Installer asks for. It also finds out whether the cluster is dual-stack.
func (j *job) chooseAddress() (err error) {
	v6, known := j.ipFamily()
	if !known {
		v6 = j.asksForIPv6()
	}
	j.dual = j.dualStack()
	j.address = j.facts.Address
	if v6 {
		j.address = j.facts.Address6
	}
	if j.Joins() {
		view, err := network.Read()
		if err != nil {
			return err
		}
		if towards := view.AddressTowards(j.options.Join.Server, v6); towards.Address.IsValid() {
			j.address = towards
		}
	}
	if kept := j.keptAddress(v6); kept.Address.IsValid() {
		j.address = kept
	}
	if u := j.options.Upgrade; u != nil && u.Address.IsValid() {
		j.address = network.Choice{Candidate: network.Candidate{Address: u.Address}}
	}
	if len(j.address.Others) == 0 || j.options.ChooseAddress == nil || word(j.spec.Section("kurl").Options, "privateAddress") != "" {
		return nil
	}
	j.address.Candidate, err = j.options.ChooseAddress(j.address)
	j.address.Why, j.address.Others = "chosen at the terminal", nil
	return err
}

// keptAddress is the address that this node got in an earlier run, as long as the host has it: the one that its kubelet uses, or the
// one that the last run began with. It is not valid on a host without an earlier run.
func (j *job) keptAddress(v6 bool) (c network.Choice) {
	if len(j.past.Records()) == 0 {
		return c
	}
	var text string
	if j.past.Began(node.InitStep) || j.past.Began(node.JoinStep) {
		if flags, err := regularfile.ReadFile(kubeadm.KubeletFlags); err == nil {
			text, _ = cluster.NodeIPs(flags)
		}
	}
	if run, err := node.LastRun(j.options.Root); err == nil {
		text = cmp.Or(text, run.Address)
	}
	address, err := netip.ParseAddr(text)
	if err != nil || address.Is6() != v6 {
		return c
	}
	if link := network.InterfaceOf(text); link != "" {
		c = network.Choice{Candidate: network.Candidate{Address: address, Link: link}, Why: "this node has it since an earlier run"}
	}
	return c
}

// checkAddress refuses an address of a kind that the cluster does not have, or that the Installer does not ask for.
func (j *job) checkAddress() error {
	asked := j.asksForIPv6()
	v6, known := j.ipFamily()
	_, makes := kubernetes(j.addOns)
	switch s := j.settings; {
	case j.options.Upgrade != nil || !makes:
		return nil
	case asked && j.asksForBoth():
		return unmetf("leave out one of them", "the Installer has kurl.ipv6, which is IPv6 alone, and kurl.dualStack, which is IPv4 and IPv6")
	case known && j.asksForBoth() && !j.dual && !j.Joins():
		return unmetf("a cluster keeps its kind of addresses, so leave out kurl.dualStack", "the cluster has %s addresses alone, and the Installer asks for kurl.dualStack", kindName(v6))
	case j.dual && !s.dual():
		return unmetf("give it one", "nodes of a dual-stack cluster have an address of each kind, and no interface of this host has an IPv6 address that other hosts can reach")
	case known && !v6 && asked && !j.Joins():
		return unmetf("a cluster keeps its kind of addresses, so leave out kurl.ipv6", "the cluster has IPv4 addresses, and the Installer asks for kurl.ipv6")
	case known && s.address != "" && s.ipv6 != v6:
		return unmetf("name another one as kurl.privateAddress", "the cluster has %s addresses, and %s of this host is none", kindName(v6), s.address)
	case known || s.address == "" && !asked && !j.facts.Address6.Address.IsValid():
		return nil
	case s.address == "" && !asked:
		return unmetf("set kurl.ipv6 in the Installer, or add the word ipv6 to the command", "this host has no IPv4 address, only IPv6 such as %s", j.facts.Address6.Address)
	case s.address == "":
		return unmetf("give it one, or name it as kurl.privateAddress", "the Installer has kurl.ipv6, and no interface of this host has an IPv6 address that other hosts can reach")
	case asked && !s.ipv6:
		return unmetf("name one, or leave out kurl.ipv6", "the Installer has kurl.ipv6, and kurl.privateAddress %s is not an IPv6 address", s.address)
	case s.ipv6 && !asked:
		return unmetf("set kurl.ipv6, too", "kurl.privateAddress %s is an IPv6 address", s.address)
	}
	return nil
}

func kindName(v6 bool) string {
	if v6 {
		return "IPv6"
	}
	return "IPv4"
}
