package install

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/sealift/sealift/installer/host/network"
	"github.com/sealift/sealift/installer/node"
)

// asksForIPv6 says whether the Installer does.
func (i *Install) asksForIPv6() bool { return isTrue(i.spec.Section("kurl").Options, "ipv6") }

// kindOfCluster says whether the cluster that there is has IPv6. known is false before there is one.
func (i *Install) kindOfCluster() (six, known bool) {
	var pods string
	if i.Joins() {
		pods = i.options.Join.Cluster.PodCIDR
	} else if rec, made := i.networksOfCluster(); made {
		pods = rec.State[node.PodNetwork]
	}
	p, err := netip.ParsePrefix(pods)
	return err == nil && p.Addr().Is6(), err == nil
}

// chooseAddress chooses the address of this host by which other nodes reach it, unless the Installer names it. It has the kind of the
// cluster that there is, or the kind that the Installer asks for.
func (i *Install) chooseAddress() {
	six, known := i.kindOfCluster()
	if !known {
		six = i.asksForIPv6()
	}
	if six {
		i.facts.Address = i.facts.Address6
	}
	if i.Joins() {
		if address := network.AddressTowards(i.options.Join.Server, six); address.IsValid() {
			i.facts.Address = address
		}
	}
	if u := i.options.Upgrade; u != nil && u.Address.IsValid() {
		i.facts.Address = u.Address
	}
}

// checkAddress refuses an address of a kind that the cluster does not have, or that the Installer does not ask for.
func (i *Install) checkAddress() error {
	asked := i.asksForIPv6()
	six, known := i.kindOfCluster()
	_, makes := kubernetes(i.addOns)
	switch s := i.settings; {
	case i.options.Upgrade != nil || !makes:
		return nil
	case known && !six && asked && !i.Joins():
		return errors.New("the cluster has IPv4 addresses, and the Installer asks for kurl.ipv6; a cluster keeps its kind of addresses, so leave out kurl.ipv6")
	case known && s.address != "" && s.six != six:
		return fmt.Errorf("the cluster has %s addresses, and %s of this host is none; name another one as kurl.privateAddress", kindName(six), s.address)
	case known || s.address == "" && !asked && !i.facts.Address6.IsValid():
		return nil
	case s.address == "" && !asked:
		return fmt.Errorf("this host has no IPv4 address, only IPv6 such as %s; set kurl.ipv6 in the Installer, or add the word ipv6 to the command", i.facts.Address6)
	case s.address == "":
		return errors.New("the Installer has kurl.ipv6, and no interface of this host has an IPv6 address that other hosts can reach; give it one, or name it as kurl.privateAddress")
	case asked && !s.six:
		return fmt.Errorf("the Installer has kurl.ipv6, and kurl.privateAddress %s is not an IPv6 address; name one, or leave out kurl.ipv6", s.address)
	case s.six && !asked:
		return fmt.Errorf("kurl.privateAddress %s is an IPv6 address; set kurl.ipv6, too", s.address)
	}
	return nil
}

func kindName(six bool) string {
	if six {
		return "IPv6"
	}
	return "IPv4"
}
