package daemon

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// The ports that FreeAddress chooses from. They are below those that the kernel gives to connections that go out
// (net.ipv4.ip_local_port_range), so a server that is started again finds its port free.
const (
	firstPort = 20000
	portCount = 10000
)

// FreeAddress finds a free loopback address, host:port. Another process may take it before it is used.
func FreeAddress() (string, error) {
	var errs []error
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(portCount)))
		if err == nil {
			return l.Addr().String(), l.Close()
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("find a free port: %w", errors.Join(errs...))
}
