package share

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// writeTime is how long a client may take for the next piece of an answer.
	writeTime = time.Minute
	// writePiece is the most that one deadline is for. A slow line must take it in writeTime.
	writePiece = 64 << 10
	// maxPerClient is how many connections a client may have. A host that joins has four; some hosts may have one address.
	maxPerClient = 64
	// maxPerNetwork is how many connections an IPv6 network of 64 bits may have. One client may control all of it, and all hosts of
	// a cluster may be in it.
	maxPerNetwork = 1024
)

// bounded is a listener that closes connections beyond what one client or network may have, and those whose client takes no more.
type bounded struct {
	net.Listener
	writeTime time.Duration

	mu   sync.Mutex
	open map[string]int // connections by client or network
}

func newBounded(l net.Listener) *bounded {
	return &bounded{Listener: l, writeTime: writeTime, open: make(map[string]int)}
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		client, network := clientOf(conn.RemoteAddr())
		if !b.enter(client, network) {
			_ = conn.Close()
			continue
		}
		return &boundedConn{Conn: conn, writeTime: b.writeTime, leave: sync.OnceFunc(func() { b.leave(client, network) })}, nil
	}
}

// enter counts a connection, if its client and its network may have one more. An empty network has no bound.
func (b *bounded) enter(client, network string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[client] >= maxPerClient || network != "" && b.open[network] >= maxPerNetwork {
		return false
	}
	b.open[client]++
	b.open[network]++
	return true
}

func (b *bounded) leave(names ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range names {
		if b.open[name]--; b.open[name] == 0 {
			delete(b.open, name)
		}
	}
}

// clientOf returns the address of a client, and for IPv6 its network of 64 bits.
func clientOf(address net.Addr) (client, network string) {
	at, err := netip.ParseAddrPort(address.String())
	if err != nil {
		return address.String(), ""
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip.String(), ""
	}
	prefix, _ := ip.Prefix(64) // every such address has one
	return ip.String(), prefix.String()
}

// boundedConn gives each piece that it writes a deadline. The connection ends when its client has not taken the piece by then,
// however long the whole answer is.
type boundedConn struct {
	net.Conn
	writeTime time.Duration
	leave     func()
}

// Write implements net.Conn.
func (c *boundedConn) Write(p []byte) (written int, err error) {
	for {
		piece := p[written:min(len(p), written+writePiece)]
		if err := c.SetWriteDeadline(time.Now().Add(c.writeTime)); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(piece)
		if written += n; err != nil || written == len(p) {
			return written, err
		}
	}
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}
