package network

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/sealift/sealift/installer/host/command"
)

// podLinks are the beginnings of interfaces that pod networks make for the node. Those of pods go with them.
func podLinks() []string {
	return []string{"cni", "flannel", "kube-", "nodelocaldns", "cali", "vxlan.calico", "weave", "antrea", "cilium"}
}

// IsPodLink reports whether an interface belongs to the pod network of a node.
func IsPodLink(name string) bool {
	return slices.ContainsFunc(podLinks(), func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// RemoveLinks removes the network interfaces of pod networks, except those that keep names and those that the host itself needs.
func RemoveLinks(ctx context.Context, output io.Writer, keep []string) error {
	v, err := Read()
	if err != nil {
		return err
	}
	var errs []error
	for _, link := range v.links {
		if !IsPodLink(link.name) || !v.IsVirtual(link.name) || slices.Contains(keep, link.name) {
			continue
		}
		err := command.Run(ctx, output, "ip", "link", "delete", "dev", link.name)
		if _, gone := net.InterfaceByName(link.name); gone == nil { // the other end of a pair disappears with the first
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// RemoveRoutes removes routes into the networks, given as prefixes, except those in keep.
func RemoveRoutes(ctx context.Context, output io.Writer, keep, networks []string) error {
	var errs []error
	var into []netip.Prefix
	for _, n := range networks {
		p, err := netip.ParsePrefix(n)
		if err != nil {
			return err
		}
		into = append(into, p)
	}
	now, err := Routes()
	if err != nil {
		return err
	}
	for _, r := range now {
		if r.destination.Bits() > 0 && slices.ContainsFunc(into, r.destination.Overlaps) && !slices.Contains(keep, r.String()) {
			errs = append(errs, command.Run(ctx, output, "ip", append([]string{"route", "delete"}, strings.Fields(r.String())...)...))
		}
	}
	return errors.Join(errs...)
}
