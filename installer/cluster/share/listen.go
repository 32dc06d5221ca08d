package share

import (
	"bufio"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/sealift/sealift/internal/connlimit"
)

const (
	// sniffTime bounds the wait for a connection's first byte.
	sniffTime = 10 * time.Second
	// maxPerClient is how many connections a client may have. A host that joins has four; some hosts may have one address.
	maxPerClient = 64
	// maxPerNetwork is how many connections an IPv6 network of 64 bits may have. One client may control all of it, and all hosts of
	// a cluster may be in it.
	maxPerNetwork = 256
	// maxConnections is how many connections all clients may have. Each takes up to 112 KiB: see MemoryMax of the unit.
	maxConnections = 512
)

// Mixed takes connections with and without TLS on one port. Hosts that have no program for TLS yet get the script and
// sealift without it; they know the digests of both. The connections of one client, and of all, are bounded, and end when their
// client reads no more.
func Mixed(l net.Listener, config *tls.Config) net.Listener {
	bounds := connlimit.New(connlimit.Options{PerClient: maxPerClient, PerNetwork: maxPerNetwork, All: maxConnections})
	m := &mixed{Listener: bounds.Listener(l), config: config, ready: make(chan net.Conn), done: make(chan struct{})}
	go m.accept()
	return m
}

type mixed struct {
	net.Listener
	config *tls.Config
	ready  chan net.Conn
	done   chan struct{}
	once   sync.Once
	err    error // set before done is closed
}

func (m *mixed) accept() {
	for {
		conn, err := m.Listener.Accept()
		var passing net.Error
		if errors.As(err, &passing) && passing.Timeout() {
			continue
		}
		if err != nil {
			m.end(err)
			return
		}
		go m.sniff(conn)
	}
}

func (m *mixed) end(err error) {
	m.once.Do(func() {
		m.err = err
		close(m.done)
	})
}

// tlsHandshake is the first byte of every TLS connection (RFC 8446 §5.1); no method of HTTP begins with it.
const tlsHandshake = 0x16

func (m *mixed) sniff(conn net.Conn) {
	_ = conn.SetReadDeadline(time.Now().Add(sniffTime))
	r := bufio.NewReaderSize(conn, 4<<10)
	first, err := r.Peek(1)
	if err != nil {
		_ = conn.Close()
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	var answered net.Conn = &peeked{conn, r}
	if first[0] == tlsHandshake {
		answered = tls.Server(answered, m.config)
	}
	select {
	case m.ready <- answered:
	case <-m.done:
		_ = conn.Close()
	}
}

// peeked is a connection whose first bytes have been read already.
type peeked struct {
	net.Conn
	r *bufio.Reader
}

func (p *peeked) Read(b []byte) (int, error) { return p.r.Read(b) }

func (m *mixed) Accept() (net.Conn, error) {
	select {
	case conn := <-m.ready:
		return conn, nil
	case <-m.done:
		return nil, m.err
	}
}

func (m *mixed) Close() error {
	m.end(net.ErrClosed)
	return m.Listener.Close()
}
