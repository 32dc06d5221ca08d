package network

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Is6 says whether the route is one of IPv6.
func (r Route) Is6() bool { return r.destination.Addr().Is6() }

// readRoutes6 reads the IPv6 routes of the main table that lead to networks, as rtnetlink(7) gives them: the file in /proc has those
// of all tables.
func readRoutes6() (found []Route, err error) {
	data, err := syscall.NetlinkRIB(unix.RTM_GETROUTE, unix.AF_INET6)
	if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) { // a kernel without IPv6
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask the kernel for its IPv6 routes: %w", err)
	}
	messages, err := syscall.ParseNetlinkMessage(data)
	if err != nil {
		return nil, fmt.Errorf("the kernel's IPv6 routes: %w", err)
	}
	for _, m := range messages {
		r, ok, err := parseRoute6(m)
		if err != nil {
			return nil, fmt.Errorf("the kernel's IPv6 routes: %w", err)
		}
		if ok {
			found = append(found, r)
		}
	}
	return found, nil
}

// parseRoute6 reads a message of rtnetlink(7). ok is false for what is no route to a network of the main table.
func parseRoute6(m syscall.NetlinkMessage) (r Route, ok bool, err error) {
	// struct rtmsg: family, length of the destination, length of the source, TOS, table, protocol, scope, type, flags
	if m.Header.Type != unix.RTM_NEWROUTE || len(m.Data) < unix.SizeofRtMsg || m.Data[0] != unix.AF_INET6 || m.Data[4] != unix.RT_TABLE_MAIN || m.Data[7] != unix.RTN_UNICAST {
		return Route{}, false, nil
	}
	attributes, err := syscall.ParseNetlinkRouteAttr(&m)
	if err != nil {
		return Route{}, false, err
	}
	destination, link := netip.IPv6Unspecified(), 0
	r.gateway = netip.IPv6Unspecified()
	for _, a := range attributes {
		switch a.Attr.Type {
		case unix.RTA_DST:
			destination, _ = netip.AddrFromSlice(a.Value)
		case unix.RTA_GATEWAY:
			r.gateway, _ = netip.AddrFromSlice(a.Value)
		case unix.RTA_OIF:
			if len(a.Value) == 4 {
				link = int(binary.NativeEndian.Uint32(a.Value))
			}
		}
	}
	r.destination = netip.PrefixFrom(destination, int(m.Data[1]))
	if !r.destination.IsValid() || !r.gateway.IsValid() {
		return Route{}, false, errors.New("a route without a destination")
	}
	i, err := net.InterfaceByIndex(link)
	if err != nil || destination.IsLinkLocalUnicast() || destination.IsMulticast() { // or the interface is gone by now
		return Route{}, false, nil //nolint:nilerr // as said
	}
	r.link = i.Name
	return r, i.Flags&net.FlagLoopback == 0, nil
}

// The flags of addresses that come and go, or that do not work, from linux/if_addr.h: temporary ones for privacy, those that another
// host has, too, and those that are no longer to be used.
const passingFlags = unix.IFA_F_TEMPORARY | unix.IFA_F_DADFAILED | unix.IFA_F_DEPRECATED

// passing6 returns the IPv6 addresses of this host that no other host should rely on.
func passing6() (map[netip.Addr]bool, error) {
	text, err := os.ReadFile("/proc/thread-self/net/if_inet6")
	if errors.Is(err, fs.ErrNotExist) { // a kernel without IPv6
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parsePassing(string(text)), nil
}

// parsePassing reads lines of /proc/net/if_inet6: address, number of the interface, length, scope, flags, name of the interface.
func parsePassing(text string) map[netip.Addr]bool {
	passing := map[netip.Addr]bool{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 6 {
			continue
		}
		data, err := hex.DecodeString(fields[0])
		flags, flagsErr := strconv.ParseUint(fields[4], 16, 32)
		if address, ok := netip.AddrFromSlice(data); ok && errors.Join(err, flagsErr) == nil && flags&passingFlags != 0 {
			passing[address] = true
		}
	}
	return passing
}
