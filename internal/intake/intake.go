// Package intake reads the bodies of HTTP requests into memory before anybody works on them. The memory for all bodies of a server is
// bounded. A body counts as it arrives, so a client that announces much and sends nothing takes no memory from others.
package intake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
)

// chunk is how much of a body is read before there is memory for it.
const chunk = 32 << 10

// Limits bound what a server reads.
type Limits struct {
	Body int64         // bytes of one body
	All  int64         // bytes of all bodies that are being read or worked on
	Time time.Duration // from the start of reading until a body is complete
}

// Room is the memory for the bodies of one server.
type Room struct {
	limits Limits
	free   *semaphore.Weighted
}

// New returns an empty room.
func New(l Limits) *Room { return &Room{limits: l, free: semaphore.NewWeighted(l.All)} }

// Read reads the body of a request. Call the returned function when the body is no longer needed. If ok is false, the client has got
// its answer: 413 for a body that is too large, 503 if others took all the memory for too long, and 400 for one that did not arrive.
func (r *Room) Read(w http.ResponseWriter, req *http.Request) (body []byte, release func(), ok bool) {
	end := time.Now().Add(r.limits.Time)
	deadline := http.NewResponseController(w)
	_ = deadline.SetReadDeadline(end) // a recorder in a test has none
	ctx, cancel := context.WithDeadline(req.Context(), end)
	defer cancel()
	var held int64
	release = func() { r.free.Release(held) }
	var all bytes.Buffer
	from, part := http.MaxBytesReader(w, req.Body, r.limits.Body), make([]byte, chunk)
	for {
		n, err := from.Read(part)
		if n > 0 {
			if full := r.free.Acquire(ctx, int64(n)); full != nil {
				release()
				http.Error(w, "the bodies of other requests take all the memory; try again", http.StatusServiceUnavailable)
				return nil, nil, false
			}
			held += int64(n)
			all.Write(part[:n])
		}
		if errors.Is(err, io.EOF) {
			_ = deadline.SetReadDeadline(time.Time{}) // the answer may take longer
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
