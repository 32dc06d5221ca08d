package connlimit

import (
	"net/netip"
	"sync/atomic"
	"time"
)

// Key returns the client that an address belongs to: an IPv4 address, or an IPv6 network of 64 bits, because one client can use all
// addresses of its network.
func Key(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return address
		}
		ip = at.Addr()
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	network, _ := ip.Prefix(64) // every such address has one
	return network.String()
}

// client counts the holds of one client.
type client struct {
	key   string
	bound int64 // 0 means none
	held  int64
	holds map[*hold]struct{}
	// busyUntil is a time before which none of the holds can be idle.
	busyUntil time.Time
}

// hold is a connection or a request in progress.
type hold struct {
	client *client // nil after its release, or while it is ending for others
	size   int64
	ending bool
	moved  atomic.Int64 // when it moved bytes last, in Unix nanoseconds
	end    func()       // ends it; called at most once, and not after its release
}

func (h *hold) move() { h.moved.Store(time.Now().UnixNano()) }

func (h *hold) lastMoved() time.Time { return time.Unix(0, h.moved.Load()) }

// verdict is the answer to a client that wants to hold more.
type verdict int

const (
	granted verdict = iota
	refused         // it is held only until the client has got a refusal
	denied          // it is not held
)

// take lets a client hold size more bytes. end must not block. A refusable hold may exceed the bounds by the part for refusals.
func (l *Limiter) take(key string, size int64, refusable bool, end func()) (*hold, verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.clients[key]
	if c == nil {
		c = &client{key: key, bound: l.boundOf(key), holds: make(map[*hold]struct{})}
	}
	answer := granted
	if !l.makeRoom(c, size) {
		l.stats.Refused++
		if answer = refused; !refusable || c.bound > 0 && c.held+size > withRefusals(c.bound) || l.held+size > withRefusals(l.all) {
			return nil, denied
		}
	}
	h := &hold{client: c, size: size, end: end}
	h.move()
	c.holds[h] = struct{}{}
	c.held += size
	l.held += size
	l.clients[key] = c
	return h, answer
}

// withRefusals returns a bound for requests that are refused: somewhat more, so that a client gets an answer.
func withRefusals(bound int64) int64 { return bound + max(bound/refusals, 4*requestSize) }

// proxies is the key of connections that proxies opened for many clients.
const proxies = ""

func (l *Limiter) boundOf(key string) int64 {
	if key == proxies {
		return 0
	}
	if _, err := netip.ParsePrefix(key); err == nil {
		return l.network
	}
	return l.client
}

// makeRoom ends holds of others, or unused ones of the client itself, until the client may hold size more bytes. It returns false if
// there is nothing to end.
func (l *Limiter) makeRoom(c *client, size int64) bool {
	for c.bound > 0 && c.held+size > c.bound {
		h := l.idleHold(&c.busyUntil, c)
		if h == nil {
			return false
		}
		l.evict(h)
	}
	for !l.fits(c, size) {
		h := l.victim(c.held + size)
		if h == nil || l.ending > l.maxEnding {
			return false
		}
		l.evict(h)
	}
	return true
}

// fits reports whether all clients together may hold size more bytes for one of them. What is reserved for a client is not for others.
func (l *Limiter) fits(c *client, size int64) bool {
	held, all := l.held, l.all
	if l.options.Reserved != "" && !l.reserved(c) {
		all -= l.client
		if own := l.clients[l.options.Reserved]; own != nil {
			held -= own.held
		}
	}
	return held+size <= all
}

func (l *Limiter) reserved(c *client) bool {
	return l.options.Reserved != "" && c.key == l.options.Reserved
}

// victim returns the hold to end for a client that needs some bytes: one of the largest client, if that holds more, or else an
// idle one.
func (l *Limiter) victim(held int64) *hold {
	var most *client
	var others []*client
	for _, c := range l.clients {
		if l.reserved(c) {
			continue
		}
		others = append(others, c)
		if c.bound > 0 && (most == nil || c.held > most.held) {
			most = c
		}
	}
	if most != nil && most.held > held {
		return stalest(most)
	}
	return l.idleHold(&l.busyUntil, others...)
}

// idleHold returns the least recently used hold, if it is idle for long enough. Until busyUntil, there can be none: so a flood
// does not make it search repeatedly.
func (l *Limiter) idleHold(busyUntil *time.Time, clients ...*client) *hold {
	if time.Now().Before(*busyUntil) {
		return nil
	}
	h := stalest(clients...)
	if h == nil || l.isIdle(h) {
		return h
	}
	*busyUntil = h.lastMoved().Add(l.idle)
	return nil
}

func stalest(clients ...*client) (stalest *hold) {
	for _, c := range clients {
		for h := range c.holds {
			if stalest == nil || h.moved.Load() < stalest.moved.Load() {
				stalest = h
			}
		}
	}
	return stalest
}

func (l *Limiter) isIdle(h *hold) bool { return time.Since(h.lastMoved()) >= l.idle }

// evict ends a hold. It runs end in a goroutine, because a stream of HTTP/2 waits for its connection.
func (l *Limiter) evict(h *hold) {
	l.stats.Evicted++
	l.remove(h)
	h.ending = true
	l.ending += h.size
	go h.end()
}

func (l *Limiter) remove(h *hold) {
	c := h.client
	h.client = nil
	delete(c.holds, h)
	c.held -= h.size
	l.held -= h.size
	if len(c.holds) == 0 {
		delete(l.clients, c.key)
	}
}

// release releases a hold.
func (l *Limiter) release(h *hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.client != nil {
		l.remove(h)
	}
	if h.ending {
		h.ending = false
		l.ending -= h.size
	}
}

// grow lets a hold take more bytes, without ending anything for them.
func (l *Limiter) grow(h *hold, more int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := h.client
	if c == nil || c.bound > 0 && c.held+more > c.bound || !l.fits(c, more) {
		l.stats.Refused++
		return false
	}
	h.size += more
	c.held += more
	l.held += more
	return true
}

// shed makes room for a connection: it ends the least used connection of the client that holds the most.
func (l *Limiter) shed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.victim(0); h != nil {
		l.evict(h)
	}
}
