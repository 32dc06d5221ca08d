package connlimit

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// What a connection of HTTP/2 may hold.
const (
	maxStreams   = 64       // Options.Streams if it is 0
	streamBuffer = 64 << 10 // for received bytes that are not read yet
	maxFrame     = 16 << 10
	headerTable  = 4 << 10
	pingAfter    = 10 * time.Second // without a frame of the client
	pingTime     = 10 * time.Second // to answer it
)

// Configure bounds what a connection of a server may hold. The server must serve l.Listener, and its handler be one of l.Handler.
//
// It ends idle connections itself: net/http restarts the timer of s.IdleTimeout when a connection of HTTP/2 has ended, and holds the
// connection until that fires.
func (l *Limiter) Configure(s *http.Server) {
	idle := s.IdleTimeout
	s.IdleTimeout = 0
	s.ConnContext = withConn
	s.ConnState = func(inner net.Conn, state http.ConnState) {
		if c := ownConn(inner); c != nil && idle > 0 {
			c.setIdle(state == http.StateIdle, idle)
		}
	}
	s.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: l.options.Streams, MaxReadFrameSize: maxFrame, MaxReceiveBufferPerConnection: streamBuffer, MaxReceiveBufferPerStream: streamBuffer,
		MaxDecoderHeaderTableSize: headerTable, MaxEncoderHeaderTableSize: headerTable,
		SendPingTimeout: pingAfter, PingTimeout: pingTime, WriteByteTimeout: l.options.Stall,
	}
}

// Handler bounds the requests to next.
func (l *Limiter) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next := next
		limiter, c := l, connOf(r.Context())
		healthy := l.health != nil && l.options.Health(r)
		if healthy || c != nil && c.hold == nil {
			limiter = l.health
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		q := &request{ResponseWriter: w, limiter: limiter, key: l.keyOf(r, c), conn: c, Deadlines: NewDeadlines(w, r), cancel: cancel, stream: r.ProtoMajor == 2}
		answer := q.enter(l.sizeOf(r, c, healthy), true)
		defer q.leave()
		switch {
		case answer == denied:
			panic(http.ErrAbortHandler)
		case c != nil && c.hold == nil:
			w.Header().Set("Connection", "close") // its slot in the reserve is for the next one
			if !healthy {
				next = l.options.Refuse
			}
		case answer == refused && !healthy:
			next = l.options.Refuse
		}
		next.ServeHTTP(q, r.WithContext(context.WithValue(ctx, requestKey{}, q)))
		q.flush()
	})
}

func (l *Limiter) keyOf(r *http.Request, c *conn) string {
	switch {
	case l.options.Forwarded != nil:
		return l.options.Forwarded(r)
	case c != nil:
		return c.key
	}
	return Key(r.RemoteAddr)
}

// sizeOf returns the memory of a request beyond its connection, which already counts one request of HTTP/1.
func (l *Limiter) sizeOf(r *http.Request, c *conn, healthy bool) int64 {
	size := int64(requestSize)
	if c != nil && c.hold != nil && r.ProtoMajor == 1 && l.options.Forwarded == nil && !healthy {
		size = 0
	}
	if l.options.Extra != nil {
		size += l.options.Extra(r)
	}
	return size
}

// request is a request in progress, and the writer of its response. Each chunk of an HTTP/2 stream has a deadline, as those of
// connections have.
type request struct {
	http.ResponseWriter
	limiter *Limiter
	key     string // of its client
	conn    *conn  // nil for a listener of another package
	*Deadlines
	cancel context.CancelFunc
	stream bool

	hold  *hold
	mu    sync.Mutex
	state requestState
}

type requestState int

const (
	active requestState = iota
	ended               // for others
	left                // by its handler
)

type requestKey struct{}

func (q *request) enter(size int64, refusable bool) (answer verdict) {
	if size == 0 {
		return granted
	}
	q.hold, answer = q.limiter.take(q.key, size, refusable, q.end)
	return answer
}

func (q *request) leave() {
	if q.hold != nil {
		q.limiter.release(q.hold)
	}
	q.Stop()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.state = left
}

// end aborts the request for others, unless its handler has returned.
func (q *request) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state == left {
		return
	}
	q.state = ended
	q.cancel()
	if !q.stream && q.conn != nil {
		_ = q.conn.Conn.Close()
		return
	}
	_ = q.SetReadDeadline(time.Now().Add(-time.Second))
	_ = q.SetWriteDeadline(time.Now().Add(-time.Second))
}

// Write implements http.ResponseWriter.
func (q *request) Write(p []byte) (written int, err error) {
	for {
		if err := q.extend(); err != nil {
			return written, err
		}
		n, err := q.ResponseWriter.Write(p[written:min(len(p), written+piece)])
		if n > 0 && q.hold != nil {
			q.hold.move()
		}
		if written += n; err != nil || written == len(p) {
			return written, err
		}
	}
}

// flush sends what HTTP/2 would otherwise send after the handler has returned, when the request no longer counts: a client may read
// nothing of that, either.
func (q *request) flush() {
	if q.stream && q.extend() == nil {
		_ = http.NewResponseController(q.ResponseWriter).Flush() // the client may be gone
	}
}

// extend sets the deadline for the next chunk.
func (q *request) extend() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state == ended {
		return net.ErrClosed
	}
	_ = q.SetWriteDeadline(time.Now().Add(q.limiter.options.Stall)) // fails without a connection, in tests
	return nil
}

// Unwrap gives http.ResponseController access to the connection.
func (q *request) Unwrap() http.ResponseWriter { return q.ResponseWriter }

// ErrFull reports that a client, or all clients together, hold too much.
var ErrFull = errors.New("too much is in progress for this address, or for all clients")

// Grow counts bytes that a request holds until its handler returns, such as a page that was rendered. It returns ErrFull if they exceed
// the bounds.
func Grow(r *http.Request, bytes int64) error {
	q, ok := r.Context().Value(requestKey{}).(*request)
	switch {
	case !ok:
		return nil
	case q.hold != nil:
		if q.limiter.grow(q.hold, bytes) {
			return nil
		}
	case q.enter(bytes, false) == granted: // the connection counts for a request of HTTP/1
		return nil
	}
	return ErrFull
}
