package network

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// How often and how long Claimed asks.
const (
	probes    = 3
	probeWait = 300 * time.Millisecond
)

// probeSize is the length of an ARP packet for IPv4 over Ethernet (RFC 826), and the others are where its fields begin.
const (
	probeSize    = 28
	senderLink   = 8
	senderIP     = 14
	targetIP     = 24
	requestCode  = 1
	ethernetCode = 1
)

// Claimed asks in the network of an interface whether another host has an IPv4 address, by an ARP probe (RFC 5227), which leaves no
// trace on other hosts. It returns the link address of that host, or nil if nobody answers. Only root may ask.
func Claimed(link string, address netip.Addr) (net.HardwareAddr, error) {
	i, err := net.InterfaceByName(link)
	if err != nil {
		return nil, err
	}
	if !address.Is4() || len(i.HardwareAddr) != 6 || i.Flags&net.FlagUp == 0 { // without Ethernet there is no ARP
		return nil, nil
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(swapped(unix.ETH_P_ARP)))
	if err != nil {
		return nil, fmt.Errorf("send an ARP request for %s: %w", address, err)
	}
	defer unix.Close(fd)
	wait := unix.NsecToTimeval(int64(probeWait))
	err = errors.Join(
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: swapped(unix.ETH_P_ARP), Ifindex: i.Index}),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait))
	if err != nil {
		return nil, fmt.Errorf("send an ARP request for %s: %w", address, err)
	}
	everybody := &unix.SockaddrLinklayer{Protocol: swapped(unix.ETH_P_ARP), Ifindex: i.Index, Halen: 6, Addr: [8]byte{255, 255, 255, 255, 255, 255}}
	for range probes {
		if err := unix.Sendto(fd, probe(i.HardwareAddr, address), 0, everybody); err != nil {
			return nil, fmt.Errorf("send an ARP request for %s: %w", address, err)
		}
		if other := heard(fd, i.HardwareAddr, address); other != nil {
			return other, nil
		}
	}
	return nil, nil
}

// heard reads packets for a while, until one shows that another host has the address.
func heard(fd int, own net.HardwareAddr, address netip.Addr) net.HardwareAddr {
	packet := make([]byte, 128)
	for end := time.Now().Add(probeWait); time.Now().Before(end); {
		n, _, err := unix.Recvfrom(fd, packet, 0)
		if err != nil || n < probeSize {
			continue
		}
		from := net.HardwareAddr(bytes.Clone(packet[senderLink:senderIP]))
		if netip.AddrFrom4([4]byte(packet[senderIP:senderIP+4])) == address && !bytes.Equal(from, own) {
			return from
		}
	}
	return nil
}

// probe is a request without the address of its sender.
func probe(own net.HardwareAddr, address netip.Addr) []byte {
	p := make([]byte, probeSize)
	binary.BigEndian.PutUint16(p[0:], ethernetCode)
	binary.BigEndian.PutUint16(p[2:], unix.ETH_P_IP)
	p[4], p[5] = 6, 4
	binary.BigEndian.PutUint16(p[6:], requestCode)
	copy(p[senderLink:], own)
	copy(p[targetIP:], address.AsSlice())
	return p
}

// swapped converts a number to the byte order of a socket's address.
func swapped(n uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], n)
	return binary.NativeEndian.Uint16(b[:])
}
