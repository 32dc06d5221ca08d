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
	return inNetwork(h, "connect to "+address, func() (net.Conn, error) {
		return (&net.Dialer{FallbackDelay: -1}).DialContext(ctx, network, address)
	})
}

// Listen listens at an address of the host's network, so that programs of the host reach a server of this machine. The address must
// be numeric. The network of a virtual machine cannot be entered. The listener is lost when the host reboots.
func (h *Host) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	return inNetwork(h, "listen at "+address, func() (net.Listener, error) {
		return (&net.ListenConfig{}).Listen(ctx, network, address)
	})
}

// inNetwork opens a socket in the host's network. The socket stays there.
func inNetwork[T any](h *Host, what string, open func() (T, error)) (socket T, err error) {
	if h.IsMachine() {
		return socket, fmt.Errorf("%s: host %s is a virtual machine, whose network this machine cannot enter; run a program in the host", what, h.state.Name)
	}
	leader, err := h.leader()
	if err != nil {
		return socket, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread, which is in another network from here on, ends with the goroutine
		if err = enterNetwork(leader); err != nil {
			err = fmt.Errorf("enter the network of host %s: %w", h.state.Name, err)
			return
		}
		socket, err = open()
	}()
	<-done
	return socket, err
}

// enterNetwork puts the calling thread into the network namespace of a process.
func enterNetwork(pid int) error {
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return err
	}
	return errors.Join(unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET), namespace.Close())
}
