package connlimit

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// piece is the maximum number of bytes for one write deadline.
	piece = 64 << 10
	// unsentSize is how many bytes the kernel keeps for a client that does not read them. Bytes under way do not count, so it slows
	// down no transfer. Otherwise a client that reads nothing holds up to 4 MiB.
	unsentSize = 128 << 10
	// acceptPause is the time between attempts to accept a connection while the system has no room for it.
	acceptPause = 20 * time.Millisecond
)

// Listener returns a listener that closes connections beyond the bounds, and ends those whose clients stop reading.
func (l *Limiter) Listener(inner net.Listener) net.Listener { return &listener{inner, l} }

type listener struct {
	net.Listener
	limiter *Limiter
}

// Accept implements net.Listener. It does not fail while the process or the system has too many open files: it ends a connection of the
// largest client, and continues.
func (l *listener) Accept() (net.Conn, error) {
	for warned := false; ; {
		inner, err := l.Listener.Accept()
		switch {
		case err == nil:
			if c := l.limiter.admit(inner); c != nil {
				return c, nil
			}
		case isOneOf(err, syscall.ECONNABORTED, syscall.EPROTO): // the client has gone (accept(2))
		case isOneOf(err, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM):
			if !warned {
				l.limiter.options.Log.Warn("cannot accept connections; ending others", "error", err)
				warned = true
			}
			l.limiter.shed()
			time.Sleep(acceptPause)
		default:
			return nil, err
		}
	}
}

func isOneOf(err error, all ...syscall.Errno) bool {
	return slices.ContainsFunc(all, func(one syscall.Errno) bool { return errors.Is(err, one) })
}

// admit returns the connection of a client that may have it, and closes any other.
func (l *Limiter) admit(inner net.Conn) *conn {
	c := &conn{Conn: inner, limiter: l}
	if l.options.Client != nil {
		c.key = l.options.Client(inner)
	} else {
		c.key = Key(inner.RemoteAddr().String())
	}
	key := c.key
	if l.options.Forwarded != nil {
		key = proxies
	} else if l.options.Admit != nil && !l.options.Admit(key) {
		l.refuse(inner)
		return nil
	}
	boundUnsent(inner)
	held, answer := l.take(key, connectionSize, false, func() { _ = inner.Close() })
	if answer == granted {
		c.hold = held
		return c
	}
	if l.health == nil {
		_ = inner.Close()
		return nil
	}
	c.reserve = time.AfterFunc(reserveTime, func() { _ = inner.Close() })
	l.keepReserve(c)
	return c
}

// refuse closes a connection without a response: with TLS, that would cost a handshake.
func (l *Limiter) refuse(inner net.Conn) {
	_ = inner.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Refused++
}

// keepReserve adds a connection to the reserve, and closes the oldest one if there are too many. It waits until that is closed, so no more
// are accepted in the meantime.
func (l *Limiter) keepReserve(c *conn) {
	l.mu.Lock()
	l.reserve = append(l.reserve, c)
	var oldest *conn
	if len(l.reserve) > maxReserve {
		oldest, l.reserve = l.reserve[0], l.reserve[1:]
	}
	l.mu.Unlock()
	if oldest != nil {
		_ = oldest.Conn.Close()
	}
}

func (l *Limiter) leaveReserve(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n, other := range l.reserve {
		if other == c {
			l.reserve = append(l.reserve[:n:n], l.reserve[n+1:]...)
			return
		}
	}
}

func boundUnsent(c net.Conn) {
	tcp, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentSize) // without it, only memory is lost
	})
}

// conn is a connection that counts. It sets a deadline for each chunk that it writes.
type conn struct {
	net.Conn
	limiter *Limiter
	key     string
	hold    *hold       // nil in the reserve
	reserve *time.Timer // ends a connection in the reserve; nil for others

	mu     sync.Mutex
	closed bool
	idle   *time.Timer // ends it after a time without requests; nil if it never was idle
}

// setIdle starts the time that a connection may be idle, or ends it.
func (c *conn) setIdle(idle bool, most time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
	case !idle && c.idle != nil:
		c.idle.Stop()
	case !idle:
	case c.idle == nil:
		c.idle = time.AfterFunc(most, func() { _ = c.Close() })
	default:
		c.idle.Reset(most)
	}
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (written int, err error) {
	for {
		if err := c.SetWriteDeadline(time.Now().Add(c.limiter.options.Stall)); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(p[written:min(len(p), written+piece)])
		if n > 0 && c.hold != nil {
			c.hold.move()
		}
		if written += n; err != nil || written == len(p) {
			return written, err
		}
	}
}

// NetConn returns the connection itself, which the kernel can copy to another one.
func (c *conn) NetConn() net.Conn { return c.Conn }

// Close implements net.Conn.
func (c *conn) Close() error {
	if c.closes() {
		if c.hold != nil {
			c.limiter.release(c.hold)
		} else {
			c.reserve.Stop()
			c.limiter.leaveReserve(c)
		}
	}
	return c.Conn.Close()
}

// closes reports whether the connection is closed for the first time.
func (c *conn) closes() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle != nil {
		c.idle.Stop()
	}
	first := !c.closed
	c.closed = true
	return first
}

type connKey struct{}

// withConn keeps the connection in the context of its requests; see http.Server.ConnContext.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if own := ownConn(c); own != nil {
		return context.WithValue(ctx, connKey{}, own)
	}
	return ctx
}

// ownConn returns the connection of this package under another one, such as that of TLS, or nil.
func ownConn(c net.Conn) *conn {
	for c != nil {
		if own, ok := c.(*conn); ok {
			return own
		}
		outer, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		c = outer.NetConn()
	}
	return nil
}

func connOf(ctx context.Context) *conn {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c
}
