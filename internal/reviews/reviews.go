// Package reviews has the bounds of a server that answers the reviews of API servers: webhooks of admission and of conversion. Not only API
// servers reach such a server: any pod of a cluster may. So each client's holds are bounded: its connections, HTTP/2 streams and request
// bodies. A review is answered when it has arrived, and sent when it has been answered. So a client that sends or reads nothing keeps no
// hook from another.
package reviews

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/sealift/sealift/internal/connlimit"
)

const (
	// perClient is how many connections a client may hold, each with a review. A further review on a connection counts a third. An API
	// server with 100 reviews takes 136: if it has no connection yet, it opens one for each of them, and keeps the first.
	perClient = 160
	// all is the same for all clients, four API servers and others: 70 MiB.
	all = 640
	// streams is how many reviews one connection may have, so that an API server needs no second one. It is net/http's own number.
	streams = 250
	// reviewTime is the longest time that an API server waits for a review.
	reviewTime = 30 * time.Second
	// stall is how long a client may take to read 64 KiB of an answer.
	stall = 15 * time.Second
	// idleTime is how long a connection may have no request.
	idleTime = 2 * time.Minute
)

// Limits bound the resources of one server.
type Limits struct {
	Body     int64         // bytes of one review
	InMemory int64         // how many reviews of that size are in memory at a time
	AtOnce   int           // how many reviews are answered at a time; others wait
	Arrival  time.Duration // how long a review, or the header of a request, may take to arrive
	Log      *slog.Logger  // nil is silence
}

// Bounds are those of one server. Its methods may be called concurrently.
type Bounds struct {
	limits  Limits
	clients *connlimit.Limiter
	bodies  *bodyRoom
	slots   chan struct{}
}

// New returns the bounds of a server.
func New(l Limits) *Bounds {
	return &Bounds{
		limits:  l,
		clients: connlimit.New(connlimit.Options{PerClient: perClient, All: all, Streams: streams, Idle: reviewTime, Stall: stall, Log: l.Log}),
		bodies:  newBodyRoom(bodyLimits{Body: l.Body, All: l.InMemory * l.Body, Time: l.Arrival}),
		slots:   make(chan struct{}, l.AtOnce),
	}
}

// Listener bounds the connections of a server, and sets the server's limits of time and of HTTP/2. The server must serve the listener that
// it returns, with a handler of Handler.
func (b *Bounds) Listener(s *http.Server, l net.Listener) net.Listener {
	// A read timeout of net/http would also hold each ended connection of HTTP/2 for that time. Bodies have theirs: see bodyRoom.
	s.ReadTimeout, s.ReadHeaderTimeout, s.IdleTimeout = 0, b.limits.Arrival, idleTime
	b.clients.Configure(s)
	return b.clients.Listener(l)
}

// Handler answers requests with next, once their bodies have arrived. Only a POST waits for a slot.
func (b *Bounds) Handler(next http.Handler) http.Handler {
	return b.clients.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, release, ok := b.bodies.Read(w, r)
		if !ok {
			return
		}
		defer release()
		r.Body = &body{bytes.NewReader(text), text}
		if r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		select {
		case b.slots <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		a := answer{header: w.Header(), status: http.StatusOK}
		func() {
			defer func() { <-b.slots }()
			next.ServeHTTP(&a, r)
		}()
		w.WriteHeader(a.status)
		_, _ = w.Write(a.text.Bytes()) // the client may be gone
	}))
}

// body is one that has arrived.
type body struct {
	io.Reader

	text []byte
}

// Close implements io.Closer.
func (*body) Close() error { return nil }

// Body returns the body of a request to a handler of Handler. Nobody may change it.
func Body(r *http.Request) []byte {
	if b, ok := r.Body.(*body); ok {
		return b.text
	}
	return nil
}

// answer is the response that a handler has written while it had a slot.
type answer struct {
	header http.Header
	status int
	text   bytes.Buffer
	begun  bool
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if !a.begun {
		a.status, a.begun = status, true
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.begun = true
	return a.text.Write(p)
}
