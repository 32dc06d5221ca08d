package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Dial connects to an address from the host's network, because this machine has no address in the hosts' network. The
// address must be numeric. The network of a virtual machine cannot be entered.
func (h *Host) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if h.IsMachine() {
		return nil, fmt.Errorf("connect to %s: host %s is a virtual machine, whose network this machine cannot enter; run a program in the host", address, h.state.Name)
	}
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	leader, err := h.leader()
	if err != nil {
		return nil, err
	}
	go func() {
		runtime.LockOSThread() // for good: the thread, which is in another network from here on, ends with the goroutine
		err := enterNetwork(leader)
		if err != nil {
			done <- result{nil, fmt.Errorf("enter the network of host %s: %w", h.state.Name, err)}
			return
		}
		conn, err := (&net.Dialer{FallbackDelay: -1}).DialContext(ctx, network, address)
		done <- result{conn, err}
	}()
	r := <-done
	return r.conn, r.err
}

// enterNetwork puts the calling thread into the network namespace of a process.
func enterNetwork(pid int) error {
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return err
	}
	return errors.Join(unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET), namespace.Close())
}
