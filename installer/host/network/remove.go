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
	"github.com/sealift/sealift/internal/podnetwork"
)

// IsPodLink reports whether an interface belongs to the pod network of a node. Pod networks may have more of such names than are known.
// Those of pods go with them.
func IsPodLink(name string) bool {
	return podnetwork.IsLink(name) || slices.ContainsFunc([]string{"cni", "flannel", "kube-", "cali", "weave", "antrea", "cilium"},
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// RemoveLinks removes the network interfaces of pod networks, except those that keep names and those that the host itself needs. Those of Open
// vSwitch, such as Antrea's, stay until the host starts again: the kernel removes them only with their switch.
func RemoveLinks(ctx context.Context, output io.Writer, keep []string) error {
	v, err := Read()
	if err != nil {
		return err
	}
	var errs []error
	for _, link := range v.links {
		if !IsPodLink(link.name) || !v.IsVirtual(link.name) || slices.Contains(keep, link.name) || link.kind == "openvswitch" {
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
