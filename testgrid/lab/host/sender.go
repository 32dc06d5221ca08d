package host

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// maxSender is how much of a command line is enough to know a process, in bytes.
const maxSender = 160

// Sender returns the command line of the process in the host that has a socket to this destination now. "" if there is none, or
// none any longer: look it up while the connection is tried.
func (h *Host) Sender(p Packets) string {
	pids := h.processes()
	var sockets, networks []string
	for _, pid := range pids {
		network, err := os.Readlink("/proc/" + pid + "/ns/net")
		if err != nil || slices.Contains(networks, network) {
			continue
		}
		networks = append(networks, network)
		for _, protocol := range []string{"tcp", "tcp6", "udp", "udp6"} {
			sockets = append(sockets, socketsTo("/proc/"+pid+"/net/"+protocol, p)...)
		}
	}
	for _, pid := range pids {
		links, _ := filepath.Glob("/proc/" + pid + "/fd/*")
		for _, link := range links {
			if target, err := os.Readlink(link); err == nil && slices.Contains(sockets, target) {
				line, _ := os.ReadFile("/proc/" + pid + "/cmdline")
				text := strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
				return strings.ToValidUTF8(text[:min(len(text), maxSender)], "")
			}
		}
	}
	return ""
}

// processes lists the processes in the host: those of its control group, which also has its pods, and those of Exec.
func (h *Host) processes() (pids []string) {
	trees, err := hierarchies()
	if err != nil {
		return nil
	}
	_ = filepath.WalkDir(filepath.Join(trees[0].path, h.group()), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == "cgroup.procs" {
			if data, err := os.ReadFile(path); err == nil {
				pids = append(pids, strings.Fields(string(data))...)
			}
		}
		return nil // groups appear and disappear
	})
	leader, err := h.leader()
	if err != nil {
		return pids
	}
	const namespace = "/ns/pid"
	own, err := os.Readlink("/proc/" + strconv.Itoa(leader) + namespace)
	if err != nil {
		return pids
	}
	links, _ := filepath.Glob("/proc/[0-9]*" + namespace)
	for _, link := range links {
		pid := strings.TrimSuffix(strings.TrimPrefix(link, "/proc/"), namespace)
		if target, err := os.Readlink(link); err == nil && target == own && !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// socketsTo lists the sockets of one of the kernel's tables, proc_net_tcp.rst, that are connected to a destination. They have
// the names that links to file descriptors have.
func socketsTo(table string, p Packets) (found []string) {
	if !strings.HasPrefix(filepath.Base(table), p.Protocol) {
		return nil
	}
	f, err := os.Open(table)
	if err != nil {
		return nil
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 {
			continue
		}
		address, port, ok := strings.Cut(fields[2], ":")
		number, err := strconv.ParseUint(port, 16, 16)
		if ok && err == nil && int(number) == p.Port && kernelAddress(address) == p.Address {
			found = append(found, fmt.Sprintf("socket:[%s]", fields[9]))
		}
	}
	return found
}

// kernelAddress reads an address from the kernel's tables: words of 32 bits in the byte order of the machine, which is little
// endian on all machines that the lab runs on.
func kernelAddress(text string) netip.Addr {
	data, err := hex.DecodeString(text)
	if err != nil || len(data)%4 != 0 {
		return netip.Addr{}
	}
	for word := range slices.Chunk(data, 4) {
		slices.Reverse(word)
	}
	address, _ := netip.AddrFromSlice(data)
	return address.Unmap()
}
