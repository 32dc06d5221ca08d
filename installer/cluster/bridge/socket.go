package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/internal/proc"
)

// The kernel numbers the sockets of a shared port in the order of their listen(2). A classic BPF program decides which of them
// gets a new connection. If there is no socket with that number, the kernel chooses one on its own. When a socket is closed, the
// last one gets its number (socket(7), SO_ATTACH_REUSEPORT_CBPF). The program disappears with the last socket, so nothing has to
// be cleaned up after a killed run.

// socket listens on a shared port.
type socket struct {
	inode   string
	process int
	started uint64 // when the process did, in ticks since the host did
}

// listening lists the inodes of the sockets of this host that listen on a TCP port.
func listening(port int) (inodes []string, err error) {
	const listening = "0A" // the state, as the kernel writes it
	suffix := fmt.Sprintf(":%04X", port)
	for _, table := range []string{"tcp", "tcp6"} {
		found, err := proc.Fields(filepath.Join("/proc/net", table), func(fields []string) string {
			if len(fields) > 9 && fields[3] == listening && strings.HasSuffix(fields[1], suffix) {
				return fields[9]
			}
			return ""
		})
		if err != nil {
			return nil, err
		}
		inodes = append(inodes, found...)
	}
	return inodes, nil
}

// inOrder returns sockets in the kernel's order, from those that listened before. A kubelet of another minor version starts the
// new server before the old one has ended.
func inOrder(before, now []socket) []socket {
	has := func(list []socket, s socket) bool {
		return slices.ContainsFunc(list, func(o socket) bool { return o.inode == s.inode })
	}
	order := slices.Clone(before)
	for _, s := range now {
		if !has(before, s) {
			order = append(order, s)
		}
	}
	for n := 0; n < len(order); {
		if has(now, order[n]) {
			n++
			continue
		}
		order[n] = order[len(order)-1]
		order = order[:len(order)-1]
	}
	return order
}

// owners finds the processes of sockets, the oldest first: that one listened first.
func owners(inodes []string) (sockets []socket, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/fd/[0-9]*")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		target, err := os.Readlink(file)
		if err != nil { // it is closed by now
			continue
		}
		inode, isSocket := strings.CutPrefix(target, "socket:[")
		if inode = strings.TrimSuffix(inode, "]"); !isSocket || !slices.Contains(inodes, inode) {
			continue
		}
		s := socket{inode: inode}
		if s.process, err = strconv.Atoi(strings.Split(file, "/")[2]); err == nil {
			s.started, err = started(s.process)
		}
		if err != nil {
			return nil, err
		}
		sockets = append(sockets, s)
	}
	if len(sockets) != len(inodes) {
		return nil, fmt.Errorf("%d processes have the %d sockets of the API server's port", len(sockets), len(inodes))
	}
	slices.SortFunc(sockets, func(a, b socket) int { return cmp.Compare(a.started, b.started) })
	return sockets, nil
}

// started reads when a process started, as a number to compare.
func started(pid int) (uint64, error) {
	ticks, err := proc.Started(pid)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(ticks, 10, 64)
}

// runs reports whether there is a process.
func runs(process int) bool { return unix.Kill(process, 0) == nil }

// Where a program finds the mark of a packet, and its header of IP: SKF_AD_OFF + SKF_AD_MARK, and SKF_NET_OFF of linux/filter.h,
// which are negative numbers.
const (
	markOffset = 1<<32 - 0x1000 + 20
	ipHeader   = 1<<32 - 0x100000
)

// program chooses the socket with one number, and another one for connections with the mark and for those to 127.0.0.1 and ::1. An
// API server connects to itself there when it starts, and ends if the other one answers.
func program(leads, other uint32) []unix.SockFilter {
	load := func(size uint16, offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_ABS | size, K: offset}
	}
	equal := func(value uint32, yes, no uint8) unix.SockFilter { // skips n bytes
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jt: yes, Jf: no}
	}
	choose := func(socket uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: socket}
	}
	return []unix.SockFilter{
		load(unix.BPF_W, markOffset), equal(mark, 14, 0),
		load(unix.BPF_B, ipHeader), {Code: unix.BPF_ALU | unix.BPF_RSH | unix.BPF_K, K: 4}, equal(6, 2, 0), // the version of IP
		load(unix.BPF_W, ipHeader+16), equal(127<<24|1, 9, 8),
		load(unix.BPF_W, ipHeader+24), equal(0, 0, 6),
		load(unix.BPF_W, ipHeader+28), equal(0, 0, 4),
		load(unix.BPF_W, ipHeader+32), equal(0, 0, 2),
		load(unix.BPF_W, ipHeader+36), equal(1, 1, 0),
		choose(leads),
		choose(other),
	}
}

// direct has the socket with one number lead.
//
// The port belongs to all of its sockets, so one of our own is enough to change that. The servers' sockets are not: Go listens for
// MPTCP, which has no such programs. Our socket exists for microseconds, or longer on a busy host. It accepts no packets: its
// clients retry after a second, as TCP does, and reach a server.
func (s server) direct(ctx context.Context, leads, other int) error {
	l, err := listenDeaf(ctx, s.bind)
	if err != nil {
		return err
	}
	raw, err := l.SyscallConn()
	if err == nil {
		controlErr := raw.Control(func(fd uintptr) {
			err = attach(fd, unix.SO_ATTACH_REUSEPORT_CBPF, program(uint32(leads), uint32(other)))
			err = os.NewSyscallError("choose the API server for new connections", err)
		})
		err = errors.Join(controlErr, err)
	}
	return errors.Join(err, l.Close())
}

// attach attaches a classic BPF program to a socket for one of its purposes.
func attach(fd uintptr, purpose int, program []unix.SockFilter) error {
	return unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, purpose, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
}

// listenDeaf listens on a port that servers share, and drops every packet: when it is closed, it has no connections to reset.
func listenDeaf(ctx context.Context, address string) (*net.TCPListener, error) {
	shared := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		controlErr := c.Control(func(fd uintptr) {
			drop := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
			err = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1), attach(fd, unix.SO_ATTACH_FILTER, drop))
		})
		return errors.Join(controlErr, err)
	}}
	shared.SetMultipathTCP(false)
	l, err := shared.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return l.(*net.TCPListener), nil
}
