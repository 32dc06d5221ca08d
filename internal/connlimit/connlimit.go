// Package connlimit bounds what the clients of a server hold at a time: connections and requests in progress, counted in bytes of
// memory. It does not bound how many requests a client sends.
//
// A client that holds its share is refused. When all clients together hold too much, the largest client loses its longest idle
// connection or request. So no client can keep the others out, however it holds on: with idle connections, with responses that it
// does not read, or with HTTP/2 streams. Some connections beyond the bounds are kept in reserve for health checks.
package connlimit

import (
	"cmp"
	"log/slog"
	"math"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// What a client's connection and request take, in bytes of memory. The first request of a connection counts with it: buffers of TLS
// and of net/http, the stack of a goroutine, and a small copy buffer. Each further request is a stream of HTTP/2.
const (
	connectionSize = 112 << 10
	requestSize    = 40 << 10
)

const (
	// idleTime is the default of Options.Idle.
	idleTime = 10 * time.Second
	// maxReserve is the number of connections beyond the bounds that are kept for health checks. The oldest one is closed first.
	maxReserve = 64
	// reserveTime is the maximum lifetime of such a connection.
	reserveTime = 5 * time.Second
	// maxHealth is the number of health checks that are answered at a time, and maxHealthClient those of one client.
	maxHealth, maxHealthClient = 64, 8
	// refusals is the part of a bound by which requests may exceed it while they are refused.
	refusals = 8
	// endings is the part of the total that may be ending for others at a time.
	endings = 8
	// DefaultStall is Options.Stall if it is 0.
	DefaultStall = time.Minute
)

// Options configures a Limiter.
type Options struct {
	// PerClient is the number of connections that one client may hold, each with a request, and All the number for all clients.
	// A further request on an HTTP/2 connection counts a third of a connection. All is lowered if the process may not open
	// four times as many files. Clients are IPv4 addresses and IPv6 networks of 64 bits.
	PerClient, All int
	// PerNetwork replaces PerClient for IPv6 networks, if all hosts of a site share one. 0 means PerClient.
	PerNetwork int
	// Reserved is a client whose share is its own: all others together have the rest, and nothing that it holds is ended for them. "" means
	// none. Its share is at most half of All.
	Reserved string
	// Client returns the client of a connection. nil means by address, as Key does.
	Client func(net.Conn) string
	// Streams is the number of requests that one HTTP/2 connection may have at a time. 0 means 64.
	Streams int
	// Idle is how long a connection or request may move no bytes before another one can replace it. 0 means 10 s; less than 0 means
	// forever, for connections that NetConn copies past this package.
	Idle time.Duration
	// Stall is how long a client may take to read the next 64 KiB of a response. 0 means DefaultStall.
	Stall time.Duration
	// Forwarded returns the client for which a proxy sent a request, as Key returns it. If set, connections come from proxies:
	// All bounds them, and PerClient bounds the requests of each client.
	Forwarded func(*http.Request) string
	// Admit reports whether a client may open one more connection now; nil means always. It bounds how often a client makes the server
	// do the work of a TLS handshake. It is not asked about connections of proxies.
	Admit func(client string) bool
	// Extra returns the bytes that a request holds besides its response, such as its body. nil means none.
	Extra func(*http.Request) int64
	// Health reports whether a request is a health check. Health checks have separate bounds, and connections in reserve. nil
	// means none.
	Health func(*http.Request) bool
	// Refuse answers a request beyond the bounds. nil means status 429 with a line of text.
	Refuse http.HandlerFunc
	// Log receives a warning when the system refuses further connections. nil means no log.
	Log *slog.Logger
}

// Limiter is the bounds of one server. Its methods may be called concurrently.
type Limiter struct {
	options              Options
	client, network, all int64 // bytes
	maxEnding            int64
	idle                 time.Duration
	health               *Limiter // of health checks; nil for none

	mu        sync.Mutex
	held      int64
	ending    int64     // bytes of connections that were ended for others and are not released yet
	busyUntil time.Time // like that of a client
	clients   map[string]*client
	reserve   []*conn // the oldest first
	stats     Stats
}

// Stats counts since the start of a server.
type Stats struct {
	Held    int64 // bytes that connections and requests hold now
	Refused int64 // connections and requests beyond a bound
	Evicted int64 // connections and requests that were ended for others
}

// New returns the bounds of a server.
func New(o Options) *Limiter {
	o.Stall, o.Idle, o.Streams = cmp.Or(o.Stall, DefaultStall), cmp.Or(o.Idle, idleTime), cmp.Or(o.Streams, maxStreams)
	if o.Idle < 0 {
		o.Idle = math.MaxInt64
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Refuse == nil {
		o.Refuse = func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "too many requests from this address are in progress; wait until some end", http.StatusTooManyRequests)
		}
	}
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) == nil {
		o.All = int(min(uint64(o.All), max(1, files.Cur/4)))
	}
	if o.Reserved != "" {
		o.PerClient = min(o.PerClient, max(1, o.All/2))
	}
	size := int64(connectionSize)
	if o.Forwarded != nil {
		size = requestSize
	}
	l := &Limiter{options: o, idle: o.Idle, clients: make(map[string]*client),
		maxEnding: int64(o.All) * connectionSize / endings, client: int64(o.PerClient) * size, network: int64(cmp.Or(o.PerNetwork, o.PerClient)) * size, all: int64(o.All) * connectionSize}
	if o.Health != nil {
		l.health = &Limiter{options: Options{Stall: reserveTime}, idle: time.Second, clients: make(map[string]*client),
			client: maxHealthClient * requestSize, network: maxHealthClient * requestSize, all: maxHealth * requestSize, maxEnding: maxHealth * requestSize}
	}
	return l
}

// Stats returns the counters.
func (l *Limiter) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Held = l.held
	return s
}
