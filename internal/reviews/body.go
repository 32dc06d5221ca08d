package reviews

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/sealift/sealift/internal/connlimit"
)

// chunk is the part of a body that is read before memory is reserved for it.
const chunk = 32 << 10

// share is how much more a client may hold than what it leaves free. So with n such clients, a part of 1/(1+8n) stays free for others.
const share = 8

// bodyLimits bound the bodies that a server reads.
type bodyLimits struct {
	Body int64         // bytes of one body
	All  int64         // bytes of all bodies that are being read or worked on: at least Body
	Time time.Duration // from the start of reading until a body is complete
}

// bodyRoom is the memory for the bodies of one server. A body is read into memory before anybody works on it. It counts as it arrives, so a
// client that announces much and sends nothing takes no memory from others. One that sends much, and ends nothing, leaves some for others.
// Room for one body is set aside for the first one that finds no other memory: so bodies that hold a part of the memory each, and wait for
// more, do not wait for each other.
type bodyRoom struct {
	limits bodyLimits

	mu      sync.Mutex
	free    int64
	clients map[string]int64 // bytes that each of them holds
	aside   bool             // the room that is set aside is in use
	changed chan struct{}    // closed when memory is released
}

// newBodyRoom returns an empty room.
func newBodyRoom(l bodyLimits) *bodyRoom {
	return &bodyRoom{limits: l, free: l.All - l.Body, clients: make(map[string]int64), changed: make(chan struct{})}
}

// claim is the memory of one body.
type claim struct {
	room   *bodyRoom
	client string
	held   int64
	aside  bool // it has the room that is set aside: all of a body
}

// more waits for memory.
func (c *claim) more(ctx context.Context, n int64) error {
	for {
		came, ok := c.try(n)
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-came:
		}
	}
}

func (c *claim) try(n int64) (came <-chan struct{}, ok bool) {
	c.room.mu.Lock()
	defer c.room.mu.Unlock()
	switch {
	case c.aside:
	case c.room.free >= n && c.room.clients[c.client]+n <= share*c.room.free:
		c.room.free -= n
		c.room.clients[c.client] += n
		c.held += n
	case !c.room.aside:
		c.room.aside, c.aside = true, true
	default:
		return c.room.changed, false
	}
	return nil, true
}

func (c *claim) release() {
	c.room.mu.Lock()
	defer c.room.mu.Unlock()
	c.room.free += c.held
	if c.room.clients[c.client] -= c.held; c.room.clients[c.client] <= 0 {
		delete(c.room.clients, c.client)
	}
	if c.aside {
		c.room.aside = false
	}
	c.held, c.aside = 0, false
	close(c.room.changed)
	c.room.changed = make(chan struct{})
}

// Read reads the body of a request. Call the returned function when the body is no longer needed. If ok is false, the client has got
// its answer: 413 for a body that is too large, 503 if others took all the memory for too long, and 400 for one that did not arrive.
func (r *bodyRoom) Read(w http.ResponseWriter, req *http.Request) (body []byte, release func(), ok bool) {
	end := time.Now().Add(r.limits.Time)
	arrival := connlimit.NewDeadlines(w, req)
	defer arrival.Stop()
	_ = arrival.SetReadDeadline(end) // a recorder in a test has none
	ctx, cancel := context.WithDeadline(req.Context(), end)
	defer cancel()
	held := claim{room: r, client: connlimit.Key(req.RemoteAddr)}
	release = held.release
	var all bytes.Buffer
	from, part := http.MaxBytesReader(w, req.Body, r.limits.Body), make([]byte, chunk)
	for {
		n, err := from.Read(part)
		if n > 0 {
			if full := held.more(ctx, int64(n)); full != nil {
				release()
				http.Error(w, "the bodies of other requests take all the memory; try again", http.StatusServiceUnavailable)
				return nil, nil, false
			}
			all.Write(part[:n])
		}
		if errors.Is(err, io.EOF) {
			_ = arrival.SetReadDeadline(time.Time{}) // the answer may take longer
			return all.Bytes(), release, true
		}
		if err != nil {
			release()
			refuse(w, err)
			return nil, nil, false
		}
	}
}

func refuse(w http.ResponseWriter, err error) {
	if tooLarge := (&http.MaxBytesError{}); errors.As(err, &tooLarge) {
		http.Error(w, fmt.Sprintf("the body has more than %d bytes", tooLarge.Limit), http.StatusRequestEntityTooLarge)
		return
	}
	http.Error(w, "the body did not arrive: "+err.Error(), http.StatusBadRequest)
}
