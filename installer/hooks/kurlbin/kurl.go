package kurlbin

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/network"
)

func kurl(ctx context.Context, args []string, s Streams) error {
	run, rest, err := command(map[string]program{
		"netutil format-ip-address":            formatAddress,
		"format-address":                       formatAddress,
		"netutil iface-from-ip":                interfaceOf,
		"netutil default-gateway-iface":        defaultInterface,
		"rook health":                          rookHealth,
		"rook wait-for-health":                 rookWaitForHealth,
		"rook wait-for-rook-version":           rookWaitForVersion("rook-version"),
		"rook wait-for-ceph-version":           rookWaitForVersion("ceph-version"),
		"rook flexvolume-to-csi":               noMigration("rook flexvolume-to-csi"),
		"rook hostpath-to-block":               noMigration("rook hostpath-to-block"),
		"longhorn prepare-for-migration":       noMigration("longhorn prepare-for-migration"),
		"longhorn rollback-migration-replicas": noMigration("longhorn rollback-migration-replicas"),
		"cluster migrate-multinode-storage":    noMigration("cluster migrate-multinode-storage"),
		"cluster check-free-disk-space":        noMigration("cluster check-free-disk-space"),
		"object-store sync":                    noMigration("object-store sync"),
		"sync-object-store":                    noMigration("sync-object-store"),
		"netutil nodes-connectivity":           nodesConnectivity,
	}, args)
	if err != nil {
		return err
	}
	return run(ctx, rest, s)
}

// formatAddress prints an address as it stands before the port of a URL: an IPv6 address in brackets.
func formatAddress(_ context.Context, args []string, s Streams) error {
	if len(args) != 1 {
		return fmt.Errorf("%w: give one address", ErrUsage)
	}
	text := args[0]
	if a, err := netip.ParseAddr(text); err == nil && a.Is6() {
		text = "[" + text + "]"
	}
	_, err := fmt.Fprintln(s.Out, text)
	return err
}

// interfaceOf prints the name of the interface that has an address.
func interfaceOf(_ context.Context, args []string, s Streams) error {
	if len(args) != 1 {
		return fmt.Errorf("%w: give one address", ErrUsage)
	}
	if _, err := netip.ParseAddr(args[0]); err != nil {
		return err
	}
	name := network.InterfaceOf(args[0])
	if name == "" {
		return fmt.Errorf("no interface has the address %s", args[0])
	}
	_, err := fmt.Fprintln(s.Out, name)
	return err
}

// defaultInterface prints the interface of the default route. A host behind an air gap may have no such route: the line is then
// empty, so that it differs from the interface of the host's address. flannel passes that one to its daemon, which otherwise
// looks for a default route.
func defaultInterface(_ context.Context, args []string, s Streams) error {
	set := flags(s)
	six := set.Bool("ipv6", false, "")
	if err := parse(set, args); err != nil {
		return err
	}
	view, err := network.Read()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.Out, view.DefaultLink(*six))
	return err
}

// subnet prints a network that no route of this host overlaps.
func subnet(_ context.Context, args []string, s Streams) error {
	set := flags(s)
	within := set.String("subnet-alloc-range", "10.32.0.0/16", "")
	size := set.Int("cidr-range", 20, "")
	exclude := set.String("exclude-subnet", "", "")
	set.Bool("debug", false, "")
	if err := parse(set, args); err != nil {
		return err
	}
	r, err := netip.ParsePrefix(*within)
	if err != nil {
		return err
	}
	facts, err := host.Discover()
	if err != nil {
		return err
	}
	used := facts.Used
	if *exclude != "" {
		p, err := netip.ParsePrefix(*exclude)
		if err != nil {
			return err
		}
		used = append(used, p)
	}
	free, err := network.FreeSubnet(*size, []netip.Prefix{r}, used)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.Out, free)
	return err
}

// nodesConnectivity is for changing the pod network of a running cluster, which Sealift does not do.
func nodesConnectivity(context.Context, []string, Streams) error {
	return errors.New("ports between nodes are not tested; a node whose pod network does not work does not become Ready")
}
