package balancer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// unknownUser is the client of connections whose user the kernel does not report.
const unknownUser = "unknown user"

// root is the user as userOf names it.
const root = "user 0"

// userOf returns the user of the node who opened a connection to this listener on loopback, where all users have one address.
func userOf(conn net.Conn) string {
	theirs, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return unknownUser
	}
	ours, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		return unknownUser
	}
	uid, err := socketUser(theirs, ours)
	if err != nil {
		return unknownUser
	}
	return fmt.Sprintf("user %d", uid)
}

// The layout of requests and answers of sock_diag(7).
const (
	sockDiagByFamily = 20
	headerSize       = 16 // struct nlmsghdr
	requestSize      = headerSize + 56
	idOffset         = headerSize + 8 // struct inet_diag_sockid in struct inet_diag_req_v2
	userOffset       = headerSize + 64
	askTimeout       = time.Second
)

// socketUser asks the kernel for the owner of the TCP socket with this local and remote address.
func socketUser(local, remote netip.AddrPort) (uid uint32, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	timeout := unix.NsecToTimeval(askTimeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return 0, err
	}
	if err := unix.Sendto(fd, diagRequest(local, remote), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	answer := make([]byte, 4<<10)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return 0, err
	}
	if n < userOffset+4 || binary.NativeEndian.Uint16(answer[4:]) != sockDiagByFamily {
		return 0, fmt.Errorf("the kernel has no socket from %s to %s", local, remote)
	}
	return binary.NativeEndian.Uint32(answer[userOffset:]), nil
}

func diagRequest(local, remote netip.AddrPort) []byte {
	q := make([]byte, requestSize)
	binary.NativeEndian.PutUint32(q, requestSize)
	binary.NativeEndian.PutUint16(q[4:], sockDiagByFamily)
	binary.NativeEndian.PutUint16(q[6:], unix.NLM_F_REQUEST)
	q[headerSize], q[headerSize+1] = unix.AF_INET6, unix.IPPROTO_TCP
	if local.Addr().Is4() {
		q[headerSize] = unix.AF_INET
	}
	binary.NativeEndian.PutUint32(q[headerSize+4:], ^uint32(0)) // in any state
	id := q[idOffset:]
	binary.BigEndian.PutUint16(id, local.Port())
	binary.BigEndian.PutUint16(id[2:], remote.Port())
	copy(id[4:20], local.Addr().AsSlice())
	copy(id[20:36], remote.Addr().AsSlice())
	binary.NativeEndian.PutUint64(id[40:], ^uint64(0)) // without a cookie
	return q
}
